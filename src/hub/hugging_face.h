// The part of Hugging Face's HTTP API that a download needs: what a model consists of, and where
// its files are. Mirrors speak it, too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hub/model_ref.h"

namespace hs {

struct HubEndpoint {
  std::string url = "https://huggingface.co";
  std::string token;     // "" = none; sent to `url` alone
  bool offline = false;  // nothing is asked
};

// HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE.
HubEndpoint hub_endpoint(const std::function<const char*(const char*)>& environment);

struct RemoteFile {
  std::string path;  // in the repository
  int64_t bytes = 0;
  std::string sha256;    // of files in large-file storage, else ""
  std::string git_sha1;  // of the others: the name of git's blob
};

struct RemoteModel {
  ModelRef ref;
  std::string commit;  // 40 hexadecimal digits
  std::vector<RemoteFile> files;
};

// Asks for the revision (or "main"). Errors: kInvalidArgument "auth": no access with this token or
// without one; kNotFound "not_found"; kUnavailable as of fetch(), "offline", "server_error";
// kDataLoss "bad_listing".
Result<RemoteModel> ask_hub(const HubEndpoint& endpoint, const ModelRef& ref,
                            const std::function<bool()>& cancelled);
// The same, from the answer's text.
Result<RemoteModel> parse_listing(std::string_view json, const ModelRef& ref);

std::string file_url(const HubEndpoint& endpoint, const RemoteModel& model, std::string_view file);

// What an answer that is no success means. `what`: "model org/name".
Error hub_error(int status, std::string_view error_code, const std::string& what, bool has_token);

// Those of the files that this program runs on: configuration, tokenizer, templates, picture
// processor, and safetensors. Never a pickle. kUnsupported "not_runnable": something that it cannot
// do without is not among them.
Result<std::vector<RemoteFile>> runnable_files(const std::vector<RemoteFile>& files);
bool is_runnable_file(std::string_view path);

}  // namespace hs
