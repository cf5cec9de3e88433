// One .safetensors file, memory-mapped: 8 bytes of header length (little endian), a JSON header,
// tensor data. Format: https://huggingface.co/docs/safetensors. Every claim of the header is
// checked against the file before any tensor can be used, so a damaged file is refused and never
// read as zeros or past its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace hs {

// A tensor as its file describes it. Offsets are checked; the bytes are row-major and may be
// unaligned.
struct TensorInfo {
  std::string name;
  std::string dtype_text;      // as in the file, e.g. "BF16"
  std::optional<DType> dtype;  // absent: a format that this program has no name for
  std::vector<int64_t> shape;  // () for a scalar
  uint64_t begin = 0;          // in the file
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

// Parses and checks the whole file except for the values. Pure. `name` is used in messages.
// Errors (kDataLoss): what is wrong, with the numbers. Tensors come back in file order.
Result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> file,
                                                  std::string_view name);

// "[192, 64]"
std::string shape_text(std::span<const int64_t> shape);

// A read-only mapping of a safetensors file. Move-only; any thread may read.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  ~SafetensorsFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::span<const std::byte> data(const TensorInfo& tensor) const;
  // Bytes of a tensor that the file system never stored (holes of a sparse file): they would read
  // as zeros.
  uint64_t hole_bytes(const TensorInfo& tensor) const;
  // Lets the kernel drop the tensor's pages from memory; they come back from the file when touched
  // again.
  void release(const TensorInfo& tensor) const;

 private:
  SafetensorsFile() = default;
  void close();

  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<std::pair<uint64_t, uint64_t>> holes_;  // [begin, end) in the file, sorted
};

}  // namespace hs
