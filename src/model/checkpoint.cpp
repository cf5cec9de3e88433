#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "model/json_fields.h"

namespace hs {

namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

// Why a directory without safetensors files cannot be served.
std::string no_weights_message(const std::filesystem::path& dir) {
  std::string message =
      fmt::format("{} has neither {} nor {}", dir.string(), kSingleFile, kIndexFile);
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(dir, code)) {
    const auto extension = entry.path().extension();
    if (extension == ".bin" || extension == ".pth" || extension == ".gguf") {
      return fmt::format("{}; weights in {} files are not read, only safetensors", message,
                         extension.string());
    }
  }
  return message;
}

// FNV-1a, 64 bits.
void mix(uint64_t& hash, std::span<const std::byte> bytes) {
  for (const std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001B3U;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& dir, const NameMap& canonical,
                                    Progress progress) {
  Checkpoint checkpoint;
  checkpoint.reading_->progress = std::move(progress);
  checkpoint.dir_ = dir;
  std::error_code code;
  const auto single = dir / kSingleFile;
  const auto index = dir / kIndexFile;
  Status status;
  if (std::filesystem::exists(single, code)) {
    status = checkpoint.add_file(single, canonical);
  } else if (std::filesystem::exists(index, code)) {
    status = checkpoint.add_shards(index, canonical);
  } else {
    return fail(ErrorKind::kNotFound, no_weights_message(dir));
  }
  if (!status) return std::unexpected(std::move(status.error()));
  for (const auto& [name, entry] : checkpoint.entries_)
    checkpoint.reading_->bytes_total += entry.tensor->bytes();
  return checkpoint;
}

void Checkpoint::mark_read(const Entry& entry) const {
  entry.file->release(*entry.tensor);
  if (!reading_->progress) return;
  // A tensor that two parts of the model share is read twice.
  reading_->bytes_done =
      std::min(reading_->bytes_done + entry.tensor->bytes(), reading_->bytes_total);
  reading_->progress(reading_->bytes_done, reading_->bytes_total);
}

Status Checkpoint::add_file(const std::filesystem::path& path, const NameMap& canonical) {
  auto file = SafetensorsFile::open(path);
  if (!file) return std::unexpected(std::move(file.error()));
  files_.push_back(std::make_unique<SafetensorsFile>(std::move(*file)));
  for (const auto& tensor : files_.back()->tensors()) {
    const Entry entry{files_.back().get(), &tensor};
    const auto [it, added] = entries_.emplace(canonical(tensor.name), entry);
    if (!added) {
      const auto& first = it->second;
      return fail(
          ErrorKind::kDataLoss,
          fmt::format("{}: tensor {} is the same weight as {} in {}", path.filename().string(),
                      tensor.name, first.tensor->name, first.file->path().filename().string()));
    }
  }
  return {};
}

Status Checkpoint::add_shards(const std::filesystem::path& index, const NameMap& canonical) {
  const auto json = read_json_file(index);
  if (!json) return std::unexpected(json.error());
  const auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object()) {
    return fail(ErrorKind::kDataLoss, fmt::format("{}: weight_map is missing", kIndexFile));
  }
  std::map<std::string, std::set<std::string>> names_of_shard;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string()) {
      return fail(ErrorKind::kDataLoss,
                  fmt::format("{}: weight_map.{} must be a file name", kIndexFile, name));
    }
    const auto& file_name = shard.get_ref<const std::string&>();
    if (file_name.empty() || std::filesystem::path(file_name).filename() != file_name ||
        file_name == "." || file_name == "..") {
      return fail(ErrorKind::kDataLoss,
                  fmt::format("{}: \"{}\" is not a plain file name", kIndexFile, file_name));
    }
    names_of_shard[file_name].insert(name);
  }
  for (const auto& [file_name, names] : names_of_shard) {
    const auto path = dir_ / file_name;
    std::error_code code;
    if (!std::filesystem::exists(path, code)) {
      return fail(ErrorKind::kDataLoss,
                  fmt::format("{}, listed in {}, is not there", file_name, kIndexFile));
    }
    if (auto added = add_file(path, canonical); !added) return added;
    std::set<std::string_view> stored;
    for (const auto& tensor : files_.back()->tensors()) stored.insert(tensor.name);
    const auto absent = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return !stored.contains(name);
    });
    if (absent != names.end()) {
      return fail(ErrorKind::kDataLoss,
                  fmt::format("{}: tensor {}, listed in {}, is not in the file", file_name, *absent,
                              kIndexFile));
    }
  }
  return {};
}

const Checkpoint::Entry* Checkpoint::find(std::string_view canonical_name) const {
  const auto it = entries_.find(std::string(canonical_name));
  return it == entries_.end() ? nullptr : &it->second;
}

std::string Checkpoint::revision(std::string_view config_text) const {
  constexpr size_t kPage = 4096;
  constexpr size_t kSamples = 16;
  uint64_t hash = 0xCBF29CE484222325U;
  mix(hash, std::as_bytes(std::span(config_text)));
  for (const auto& file : files_) {
    const auto bytes = file->bytes();
    const uint64_t size = bytes.size();
    mix(hash, std::as_bytes(std::span(&size, 1)));
    // Headers alone do not change when a model is trained further, so some pages of data go in too.
    const size_t header = file->tensors().empty() ? bytes.size() : file->tensors().front().begin;
    mix(hash, bytes.first(header));
    for (size_t i = 0; i < kSamples; ++i) {
      const size_t at = header + (bytes.size() - header) / kSamples * i;
      mix(hash, bytes.subspan(at, std::min(kPage, bytes.size() - at)));
    }
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace hs
