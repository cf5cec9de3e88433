// The weights of a checkpoint directory: one model.safetensors, or the shards that
// model.safetensors.index.json lists. Names are looked up in canonical form, so that a family's
// code knows one spelling whatever generation of files it is given.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "model/safetensors.h"

namespace hs {

// Stored name -> canonical name. Names that mean nothing to the family may come back unchanged.
using NameMap = std::function<std::string(std::string_view stored)>;

class Checkpoint {
 public:
  // A tensor and the file it lies in; valid as long as the checkpoint.
  struct Entry {
    const SafetensorsFile* file = nullptr;
    const TensorInfo* tensor = nullptr;
  };

  // Maps every file and checks every header. Errors name the file; kNotFound when there are no
  // weights at all. `progress` (bytes read, bytes in all; may be empty) hears of every mark_read().
  using Progress = std::function<void(size_t bytes_done, size_t bytes_total)>;
  static Result<Checkpoint> open(const std::filesystem::path& dir, const NameMap& canonical,
                                 Progress progress = {});

  // Null when the checkpoint has no such tensor.
  const Entry* find(std::string_view canonical_name) const;
  // The device has its copy: the pages of the tensor go back to the system.
  void mark_read(const Entry& entry) const;
  size_t num_tensors() const { return entries_.size(); }
  const std::filesystem::path& dir() const { return dir_; }

  // Hash of headers, file sizes and some pages of data, with `config_text`: equal for equal
  // checkpoints. 16 hexadecimal digits.
  std::string revision(std::string_view config_text) const;

 private:
  Status add_file(const std::filesystem::path& path, const NameMap& canonical);
  Status add_shards(const std::filesystem::path& index, const NameMap& canonical);

  struct Reading {
    Progress progress;
    size_t bytes_done = 0;
    size_t bytes_total = 0;  // of all tensors
  };

  std::filesystem::path dir_;
  std::unique_ptr<Reading> reading_ = std::make_unique<Reading>();
  std::vector<std::unique_ptr<SafetensorsFile>> files_;  // entries point into them
  std::unordered_map<std::string, Entry> entries_;       // by canonical name
};

}  // namespace hs
