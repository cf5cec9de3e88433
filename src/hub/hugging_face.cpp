#include "hub/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "fetch/fetch.h"
#include "model/json_fields.h"

namespace hs {
namespace {

constexpr int64_t kListingBytesMax = 16 << 20;
constexpr int64_t kListingMs = 60'000;
constexpr size_t kFilesMax = 100'000;
constexpr int64_t kFileBytesMax = int64_t{1} << 44;

constexpr std::string_view kConfigFiles[] = {"config.json",
                                             "generation_config.json",
                                             "tokenizer.json",
                                             "tokenizer_config.json",
                                             "special_tokens_map.json",
                                             "added_tokens.json",
                                             "vocab.json",
                                             "merges.txt",
                                             "chat_template.json",
                                             "chat_template.jinja",
                                             "preprocessor_config.json",
                                             "processor_config.json",
                                             "model.safetensors.index.json"};

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "model.safetensors", "model-00001-of-00003.safetensors".
bool is_weights(std::string_view path) {
  if (path == "model.safetensors") return true;
  constexpr std::string_view kBegin = "model-";
  constexpr std::string_view kMiddle = "-of-";
  constexpr std::string_view kEnd = ".safetensors";
  if (!path.starts_with(kBegin) || !path.ends_with(kEnd)) return false;
  path = path.substr(kBegin.size(), path.size() - kBegin.size() - kEnd.size());
  const size_t middle = path.find(kMiddle);
  return middle != path.npos && is_digits(path.substr(0, middle)) &&
         is_digits(path.substr(middle + kMiddle.size()));
}

std::string text_or_empty(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  const bool is_text = found != object.end() && found->is_string();
  return is_text ? found->get<std::string>() : std::string();
}

int64_t size_of(const nlohmann::json& object) {
  const auto found = object.find("size");
  if (found == object.end() || !found->is_number_integer()) return -1;
  const auto size = found->get<int64_t>();
  return size > kFileBytesMax ? -1 : size;
}

RemoteFile read_sibling(const nlohmann::json& sibling) {
  RemoteFile file;
  file.path = text_or_empty(sibling, "rfilename");
  file.bytes = size_of(sibling);
  const auto lfs = sibling.find("lfs");
  if (lfs != sibling.end() && lfs->is_object()) {
    file.sha256 = text_or_empty(*lfs, "sha256");
    if (file.sha256.empty()) file.sha256 = text_or_empty(*lfs, "oid");
    if (const int64_t bytes = size_of(*lfs); bytes >= 0) file.bytes = bytes;
  } else {
    file.git_sha1 = text_or_empty(sibling, "blobId");
  }
  return file;
}

std::string escaped_component(std::string_view text) {
  std::string out;
  for (const char c : escaped_path(text))
    if (c == '/')
      out += "%2F";
    else
      out += c;
  return out;
}

}  // namespace

HubEndpoint hub_endpoint(const std::function<const char*(const char*)>& environment) {
  HubEndpoint endpoint;
  const auto variable = [&](const char* name) {
    const char* value = environment(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string url = variable("HF_ENDPOINT"); !url.empty()) endpoint.url = std::move(url);
  while (endpoint.url.ends_with('/')) endpoint.url.pop_back();
  endpoint.token = variable("HF_TOKEN");
  std::string offline = variable("HF_HUB_OFFLINE");
  for (char& c : offline)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  endpoint.offline = offline == "1" || offline == "true" || offline == "yes" || offline == "on";
  return endpoint;
}

Error hub_error(int status, std::string_view error_code, const std::string& what, bool has_token) {
  // A repository that is hidden or does not exist looks like one without access.
  if (error_code == "RepoNotFound" || error_code == "RevisionNotFound" ||
      error_code == "EntryNotFound" || status == 404)
    return {ErrorKind::kNotFound,
            fmt::format("{} does not exist there{}.", what,
                        has_token ? "" : ", or is private (HF_TOKEN is not set)"),
            "not_found", "model"};
  if (status == 401 || status == 403)
    return {ErrorKind::kInvalidArgument,
            fmt::format("No access to {}: {}.", what,
                        has_token ? "the account of HF_TOKEN must accept its terms on its page"
                                  : "set HF_TOKEN to the token of an account that may have it"),
            "auth", "model"};
  return {ErrorKind::kUnavailable, fmt::format("{}: the server answered {}.", what, status),
          "server_error", ""};
}

Result<RemoteModel> parse_listing(std::string_view json, const ModelRef& ref) {
  const auto parsed = parse_json_object(json, "the listing of " + ref.repo());
  const auto bad = [&](std::string_view why) {
    return fail(ErrorKind::kDataLoss, fmt::format("The listing of {} {}.", ref.repo(), why),
                "bad_listing");
  };
  if (!parsed) return bad("is not JSON");
  RemoteModel model{ref, text_or_empty(*parsed, "sha"), {}};
  if (!is_hex(model.commit, 40)) return bad("names no commit");
  const auto siblings = parsed->find("siblings");
  if (siblings == parsed->end() || !siblings->is_array() || siblings->size() > kFilesMax)
    return bad("names no files");
  for (const auto& sibling : *siblings) {
    if (!sibling.is_object()) return bad("names no files");
    RemoteFile file = read_sibling(sibling);
    if (!is_runnable_file(file.path)) {
      model.files.push_back(std::move(file));
      continue;
    }
    if (file.bytes < 0 || (!is_hex(file.sha256, 64) && !is_hex(file.git_sha1, 40)))
      return bad(fmt::format("has no size or hash of {}", file.path));
    model.files.push_back(std::move(file));
  }
  return model;
}

Result<RemoteModel> ask_hub(const HubEndpoint& endpoint, const ModelRef& ref,
                            const std::function<bool()>& cancelled) {
  if (endpoint.offline)
    return fail(ErrorKind::kUnavailable, "HF_HUB_OFFLINE is set: nothing is fetched.", "offline");
  const std::string revision = ref.revision.empty() ? "main" : ref.revision;
  FetchRequest request;
  request.url = fmt::format("{}/api/models/{}/{}/revision/{}?blobs=true", endpoint.url, ref.org,
                            ref.name, escaped_component(revision));
  request.bearer_token = endpoint.token;
  request.limits.bytes_max = kListingBytesMax;
  request.limits.total_ms = kListingMs;
  request.cancelled = cancelled;
  const auto answer = fetch(request);
  if (!answer) return std::unexpected(answer.error());
  if (answer->head.status != 200)
    return std::unexpected(hub_error(answer->head.status, answer->head.header("x-error-code"),
                                     fmt::format("{} (revision {})", ref.repo(), revision),
                                     !endpoint.token.empty()));
  return parse_listing(answer->body, ref);
}

std::string file_url(const HubEndpoint& endpoint, const RemoteModel& model, std::string_view file) {
  return fmt::format("{}/{}/{}/resolve/{}/{}", endpoint.url, model.ref.org, model.ref.name,
                     model.commit, escaped_path(file));
}

bool is_runnable_file(std::string_view path) {
  return std::ranges::find(kConfigFiles, path) != std::end(kConfigFiles) || is_weights(path);
}

Result<std::vector<RemoteFile>> runnable_files(const std::vector<RemoteFile>& files) {
  std::vector<RemoteFile> chosen;
  const auto has = [&](const auto& test) { return std::ranges::any_of(chosen, test); };
  for (const RemoteFile& file : files)
    if (is_runnable_file(file.path)) chosen.push_back(file);
  const auto lacks = [](std::string_view what) {
    return fail(ErrorKind::kUnsupported, fmt::format("The repository has no {}.", what),
                "not_runnable", "model");
  };
  if (!has([](const RemoteFile& file) { return file.path == "config.json"; }))
    return lacks("config.json: it holds no model in Hugging Face layout");
  if (!has([](const RemoteFile& file) { return is_weights(file.path); }))
    return lacks("model.safetensors; pickled weights (.bin, .pt) are never fetched");
  if (!has([](const RemoteFile& file) { return file.path == "tokenizer.json"; }))
    return lacks("tokenizer.json");
  // Small ones first: what is wrong with them is known before the long wait.
  std::ranges::stable_sort(chosen, {}, [](const RemoteFile& file) {
    return std::pair(is_weights(file.path), file.path);
  });
  return chosen;
}

}  // namespace hs
