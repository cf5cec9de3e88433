// Taking a model that is on this machine already into the store: a folder with a checkpoint, or
// one of the Hugging Face cache, whose links are followed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "hub/model_store.h"
#include "hub/pull.h"

namespace hs {

struct ImportOptions {
  // "org/name"; "" = the cache's own, else "local/" and the folder's name.
  std::string name;
  bool copy = false;  // bytes of their own, instead of links where the file system has them
  std::function<void(const PullProgress&)> progress = {};  // may be empty
  std::function<bool()> cancelled = {};                    // may be empty
};

// `from`: a checkpoint's folder, a snapshot, a "models--org--name" of the cache, or the cache's
// folder of them. Only files that runnable_files() names are taken; headers of the weights are
// checked, and in the cache each file against the hash it is named by. A file shares its bytes with
// the original where the file system can (reflink), else is a hard link to it, else a copy.
// Errors: kNotFound, kUnsupported, kDataLoss "checksum", kResourceExhausted "no_space".
Result<StoredModel> import_model(const ModelStore& store, const std::filesystem::path& from,
                                 const ImportOptions& options, const Clock& clock);

}  // namespace hs
