#include "hub/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hub/model_ref.h"
#include "model/json_fields.h"

namespace hs {
namespace {

constexpr size_t kFilesMax = 4096;

const std::string* text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

bool read_text(const nlohmann::json& object, const char* key, std::string& out) {
  const std::string* text = text_of(object, key);
  if (text != nullptr) out = *text;
  return text != nullptr;
}

bool read_size(const nlohmann::json& object, const char* key, int64_t& out) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return false;
  out = found->get<int64_t>();
  return out >= 0;
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

bool is_folder_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

bool read_file(const nlohmann::json& entry, StoredFile& file) {
  return entry.is_object() && read_text(entry, "path", file.path) && is_file_name(file.path) &&
         read_size(entry, "bytes", file.bytes) && read_text(entry, "sha256", file.sha256);
}

}  // namespace

int64_t ModelManifest::bytes() const {
  int64_t sum = 0;
  for (const StoredFile& file : files) sum += file.bytes;
  return sum;
}

std::string manifest_json(const ModelManifest& manifest) {
  nlohmann::ordered_json json;
  json["repo"] = manifest.repo;
  json["source"] = manifest.source;
  json["revision"] = manifest.revision;
  json["commit"] = manifest.commit;
  json["architecture"] = manifest.architecture;
  json["installed_ms"] = manifest.installed_ms;
  json["files"] = nlohmann::ordered_json::array();
  for (const StoredFile& file : manifest.files)
    json["files"].push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

Result<ModelManifest> parse_manifest(std::string_view json, std::string_view name) {
  const auto parsed = parse_json_object(json, name);
  if (!parsed) return std::unexpected(parsed.error());
  const auto damaged = [&](const char* field) {
    return fail(ErrorKind::kDataLoss, fmt::format("{}: {} is missing or wrong", name, field));
  };
  ModelManifest manifest;
  if (!read_text(*parsed, "repo", manifest.repo) || !parse_model_ref(manifest.repo))
    return damaged("repo");
  if (!read_text(*parsed, "source", manifest.source)) return damaged("source");
  if (!read_text(*parsed, "revision", manifest.revision)) return damaged("revision");
  if (!read_text(*parsed, "commit", manifest.commit) || !is_folder_name(manifest.commit))
    return damaged("commit");
  if (!read_text(*parsed, "architecture", manifest.architecture)) return damaged("architecture");
  if (!read_size(*parsed, "installed_ms", manifest.installed_ms)) return damaged("installed_ms");
  const auto files = parsed->find("files");
  if (files == parsed->end() || !files->is_array() || files->size() > kFilesMax)
    return damaged("files");
  for (const auto& entry : *files) {
    StoredFile file;
    if (!read_file(entry, file)) return damaged("files");
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace hs
