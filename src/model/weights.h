// Taking a checkpoint's tensors to a device: each lookup names the tensor and the shape that
// config.json implies, and the source pages are given back to the system as soon as the device has
// its copy.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "model/checkpoint.h"

namespace hs {

// A vector, table or matrix of parameters with the memory it lives in.
struct OwnedVector {
  Buffer buffer;
  int64_t size = 0;
  operator Vector() const {
    return {buffer.data(), size};
  }  // NOLINT(google-explicit-constructor): a view
};
struct OwnedTable {
  Buffer buffer;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  operator Table() const { return {buffer.data(), dtype, rows, cols}; }  // NOLINT: a view
};

// A linear layer as ops take it; the bias is absent (size 0) where the model has none.
struct LinearWeights {
  OwnedWeight weight;
  OwnedVector bias;
};

// A range of rows or columns; of size 0: all.
struct Slice {
  int64_t first = 0;
  int64_t size = 0;
};

struct LayerNormWeights {
  OwnedVector weight;
  OwnedVector bias;
};

// Loads for one device. The first failure is kept and everything after it does nothing, so that a
// model's weights read as a plain list and the caller asks status() once.
class WeightLoader {
 public:
  // `dtype`: how matrices are stored on the device (kF32, kBF16 or kF16). Everything must outlive
  // the loader.
  WeightLoader(const Checkpoint& checkpoint, Device& device, DType dtype);

  bool has(std::string_view name) const { return checkpoint_->find(name) != nullptr; }

  // The weights NAME.weight (out_dim, in_dim) of all names, stacked in order, and NAME.bias
  // (out_dim) when `bias`; of each the given rows, and of all the columns `inputs`.
  struct Part {
    std::string name;
    int64_t out_dim = 0;
    Slice rows = {};
  };
  LinearWeights linear(std::initializer_list<Part> parts, int64_t in_dim, bool bias,
                       Slice inputs = {});
  // A matrix under its full name, without bias; `shape` as stored, all but the first dimension
  // flattened.
  OwnedWeight matrix(const std::string& name, std::initializer_list<int64_t> shape);
  // A matrix (out_dim, in_dim) of values that the caller has put together.
  OwnedWeight pack_values(std::span<const float> values, int64_t out_dim, int64_t in_dim);
  // A float32 vector under its full name.
  OwnedVector vector(const std::string& name, int64_t size);
  LayerNormWeights layer_norm(const std::string& name, int64_t size);
  // (rows, cols) as stored; float32 is rounded to the 16 bits that matrices are stored in.
  OwnedTable table(const std::string& name, int64_t rows, int64_t cols);
  // Whether matrix() stores exactly the checkpoint's values. False when there is no such tensor.
  bool stores_exactly(std::string_view name) const;
  // Values as float32 in host memory, for parameters that are combined before they go to the
  // device.
  std::vector<float> host_values(const std::string& name, std::initializer_list<int64_t> shape);
  // A buffer that is not a parameter but lives as long as the weights.
  Buffer upload(std::span<const std::byte> bytes);
  // Float32 values stored in the device's activation format.
  Buffer upload_activations(std::span<const float> values);

  // Records a failure of the caller's own.
  void fail_with(Error error);
  Status status() const;
  size_t weight_bytes() const { return weight_bytes_; }  // on the device, so far

 private:
  const Checkpoint::Entry* checked(const std::string& name, std::span<const int64_t> shape);
  struct Source {
    const Checkpoint::Entry* entry = nullptr;
    Slice rows;
  };
  OwnedWeight pack(std::span<const Source> sources, int64_t in_dim, Slice inputs);
  OwnedWeight keep(Result<OwnedWeight> packed);
  void append_values(const Checkpoint::Entry& entry, Slice slice, std::vector<float>& values);

  const Checkpoint* checkpoint_;
  Device* device_;
  DType dtype_;
  size_t weight_bytes_ = 0;
  std::optional<Error> error_;
};

// Conversions of stored numbers. They round to nearest, ties to even.
float half_to_float(uint16_t bits);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);
uint16_t float_to_half(float value);
// The one that rounds to dtype, kF16 or kBF16.
uint16_t (*rounding_to(DType dtype))(float);

}  // namespace hs
