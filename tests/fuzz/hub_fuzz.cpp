// Whatever a manifest, a listing or a name of a model holds: what is taken from it is safe as the
// name of a file or folder, and has a hash to be checked against.
#include <cstdlib>

#include "hub/hugging_face.h"
#include "hub/manifest.h"
#include "hub/model_ref.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto is_unsafe = [](std::string_view name) {
    return name.empty() || name.front() == '.' || name.find('/') != name.npos;
  };
  if (const auto ref = hs::parse_model_ref(text);
      ref && (is_unsafe(ref->org) || is_unsafe(ref->name)))
    std::abort();
  if (const auto manifest = hs::parse_manifest(text, "fuzz")) {
    if (is_unsafe(manifest->commit) || !hs::parse_model_ref(manifest->repo)) std::abort();
    for (const hs::StoredFile& file : manifest->files)
      if (is_unsafe(file.path)) std::abort();
    const auto again = hs::parse_manifest(hs::manifest_json(*manifest), "again");
    if (!again || again->files.size() != manifest->files.size()) std::abort();
  }
  if (const auto listing = hs::parse_listing(text, {"a", "b", ""}))
    if (const auto files = hs::runnable_files(listing->files))
      for (const hs::RemoteFile& file : *files)
        if (is_unsafe(file.path) || file.bytes < 0 ||
            (file.sha256.empty() && file.git_sha1.empty()))
          std::abort();
  return 0;
}
