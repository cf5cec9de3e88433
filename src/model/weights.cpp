#include "model/weights.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace hs {

namespace {

bool is_float_dtype(const TensorInfo& tensor) {
  return tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
}

std::string file_name(const Checkpoint::Entry& entry) {
  return entry.file->path().filename().string();
}

template <typename T>
T load_unaligned(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

float value_at(const std::byte* data, DType dtype, size_t i) {
  switch (dtype) {
    case DType::kF32:
      return load_unaligned<float>(data + 4 * i);
    case DType::kF16:
      return half_to_float(load_unaligned<uint16_t>(data + 2 * i));
    default:
      return bfloat16_to_float(load_unaligned<uint16_t>(data + 2 * i));
  }
}

Slice or_all(Slice slice, int64_t size) {
  return slice.size == 0 ? Slice{0, size} : slice;
}

// A missing layer is nearly always a config that does not belong to the weights: say so.
std::string missing_hint(std::string_view name) {
  return name.find("layers.") == std::string_view::npos
             ? ""
             : "; does num_hidden_layers in config.json belong to these weights?";
}

}  // namespace

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16U;
  const uint32_t exponent = (bits >> 10U) & 0x1FU;
  const uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormal: fraction * 2^-24, exact in float32
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide_exponent = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (wide_exponent << 23U) | (fraction << 13U));
}

float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U);
}

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

uint16_t float_to_half(float value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

uint16_t (*rounding_to(DType dtype))(float) {
  HS_CHECK(dtype == DType::kF16 || dtype == DType::kBF16);
  return dtype == DType::kF16 ? float_to_half : float_to_bfloat16;
}

WeightLoader::WeightLoader(const Checkpoint& checkpoint, Device& device, DType dtype)
    : checkpoint_(&checkpoint), device_(&device), dtype_(dtype) {}

void WeightLoader::fail_with(Error error) {
  if (!error_) error_ = std::move(error);
}

Status WeightLoader::status() const {
  if (error_) return std::unexpected(*error_);
  return {};
}

const Checkpoint::Entry* WeightLoader::checked(const std::string& name,
                                               std::span<const int64_t> shape) {
  if (error_) return nullptr;
  const auto* entry = checkpoint_->find(name);
  if (entry == nullptr) {
    fail_with({ErrorKind::kDataLoss,
               fmt::format("the weights have no tensor {} (under any of its known names){}", name,
                           missing_hint(name)),
               "", ""});
    return nullptr;
  }
  const auto& tensor = *entry->tensor;
  if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end())) {
    fail_with({ErrorKind::kDataLoss,
               fmt::format("{}: tensor {} is {}, but config.json makes it {}", file_name(*entry),
                           tensor.name, shape_text(tensor.shape), shape_text(shape)),
               "", ""});
    return nullptr;
  }
  if (!is_float_dtype(tensor)) {
    fail_with({ErrorKind::kUnsupported,
               fmt::format("{}: tensor {} is stored as {}; F32, F16 and BF16 can be read",
                           file_name(*entry), tensor.name, tensor.dtype_text),
               "", ""});
    return nullptr;
  }
  // A few unused rows of zeros may legitimately be stored as a hole; more than that is a download
  // that never came.
  const uint64_t holes = entry->file->hole_bytes(tensor);
  if (holes > tensor.bytes() / 100) {
    fail_with(
        {ErrorKind::kDataLoss,
         fmt::format("{}: {} of the {} bytes of tensor {} were never written (a hole in the file)",
                     file_name(*entry), holes, tensor.bytes(), tensor.name),
         "", ""});
    return nullptr;
  }
  return entry;
}

OwnedWeight WeightLoader::pack(std::span<const Source> sources, int64_t in_dim, Slice inputs) {
  const Slice columns = or_all(inputs, in_dim);
  std::vector<WeightPart> parts;
  std::vector<std::vector<std::byte>> copies;  // of parts that do not stand in the file as they are
  for (const auto& source : sources) {
    const auto& tensor = *source.entry->tensor;
    const Slice rows = or_all(source.rows, tensor.shape.front());
    const size_t element = dtype_bytes(*tensor.dtype);
    const size_t row_bytes = static_cast<size_t>(in_dim) * element;
    const size_t piece_bytes = static_cast<size_t>(columns.size) * element;
    const std::byte* first = source.entry->file->data(tensor).data() +
                             static_cast<size_t>(rows.first) * row_bytes +
                             static_cast<size_t>(columns.first) * element;
    const bool aligned = reinterpret_cast<uintptr_t>(first) % element == 0;
    if (piece_bytes < row_bytes || !aligned) {
      auto& copy = copies.emplace_back(static_cast<size_t>(rows.size) * piece_bytes);
      for (size_t row = 0; row < static_cast<size_t>(rows.size); ++row) {
        std::memcpy(copy.data() + row * piece_bytes, first + row * row_bytes, piece_bytes);
      }
      first = copy.data();
    }
    parts.push_back({first, *tensor.dtype, rows.size});
  }
  auto packed = device_->pack_weight(parts, columns.size, dtype_);
  for (const auto& source : sources) checkpoint_->mark_read(*source.entry);
  return keep(std::move(packed));
}

OwnedWeight WeightLoader::pack_values(std::span<const float> values, int64_t out_dim,
                                      int64_t in_dim) {
  HS_CHECK_EQ(std::ssize(values), out_dim * in_dim);
  if (error_) return {};
  const WeightPart part{values.data(), DType::kF32, out_dim};
  return keep(device_->pack_weight(std::span(&part, 1), in_dim, dtype_));
}

OwnedWeight WeightLoader::keep(Result<OwnedWeight> packed) {
  if (!packed) {
    fail_with(std::move(packed.error()));
    return {};
  }
  weight_bytes_ += packed->buffer.bytes();
  return std::move(*packed);
}

LinearWeights WeightLoader::linear(std::initializer_list<Part> parts, int64_t in_dim, bool bias,
                                   Slice inputs) {
  LinearWeights result;
  std::vector<Source> weights;
  std::vector<float> bias_values;
  for (const auto& part : parts) {
    const int64_t shape[] = {part.out_dim, in_dim};
    const auto* weight = checked(part.name + ".weight", shape);
    if (weight == nullptr) return result;
    weights.push_back({weight, part.rows});
    if (!bias) continue;
    const auto* values = checked(part.name + ".bias", std::span(shape, 1));
    if (values == nullptr) return result;
    append_values(*values, part.rows, bias_values);
  }
  result.weight = pack(weights, in_dim, inputs);
  if (bias) {
    result.bias = {upload(std::as_bytes(std::span(bias_values))),
                   static_cast<int64_t>(bias_values.size())};
  }
  return result;
}

OwnedWeight WeightLoader::matrix(const std::string& name, std::initializer_list<int64_t> shape) {
  const auto* entry = checked(name, std::span(shape));
  if (entry == nullptr) return {};
  int64_t in_dim = 1;
  for (const int64_t n : std::span(shape).subspan(1)) in_dim *= n;
  const Source source{entry, {}};
  return pack(std::span(&source, 1), in_dim, {});
}

OwnedVector WeightLoader::vector(const std::string& name, int64_t size) {
  const auto values = host_values(name, {size});
  if (error_) return {};
  return {upload(std::as_bytes(std::span(values))), size};
}

LayerNormWeights WeightLoader::layer_norm(const std::string& name, int64_t size) {
  LayerNormWeights result;
  result.weight = vector(name + ".weight", size);
  result.bias = vector(name + ".bias", size);
  return result;
}

OwnedTable WeightLoader::table(const std::string& name, int64_t rows, int64_t cols) {
  const int64_t shape[] = {rows, cols};
  const auto* entry = checked(name, shape);
  if (entry == nullptr) return {};
  const auto bytes = entry->file->data(*entry->tensor);
  OwnedTable table{{}, *entry->tensor->dtype, rows, cols};
  if (table.dtype == DType::kF32 && dtype_ != DType::kF32) {
    table.dtype = dtype_;
    const auto round = rounding_to(dtype_);
    std::vector<uint16_t> rounded(static_cast<size_t>(rows * cols));
    for (size_t i = 0; i < rounded.size(); ++i) {
      rounded[i] = round(load_unaligned<float>(bytes.data() + 4 * i));
    }
    table.buffer = upload(std::as_bytes(std::span(rounded)));
  } else {
    table.buffer = upload(bytes);
  }
  checkpoint_->mark_read(*entry);
  return table;
}

bool WeightLoader::stores_exactly(std::string_view name) const {
  const auto* entry = checkpoint_->find(name);
  return entry != nullptr && (dtype_ == DType::kF32 || entry->tensor->dtype == dtype_);
}

std::vector<float> WeightLoader::host_values(const std::string& name,
                                             std::initializer_list<int64_t> shape) {
  std::vector<float> values;
  if (const auto* entry = checked(name, std::span(shape)); entry != nullptr)
    append_values(*entry, {}, values);
  return values;
}

void WeightLoader::append_values(const Checkpoint::Entry& entry, Slice slice,
                                 std::vector<float>& values) {
  const auto data = entry.file->data(*entry.tensor);
  const DType dtype = *entry.tensor->dtype;
  const Slice wanted = or_all(slice, static_cast<int64_t>(data.size() / dtype_bytes(dtype)));
  for (int64_t i = 0; i < wanted.size; ++i) {
    values.push_back(value_at(data.data(), dtype, static_cast<size_t>(wanted.first + i)));
  }
  checkpoint_->mark_read(entry);
}

Buffer WeightLoader::upload(std::span<const std::byte> bytes) {
  if (error_) return {};
  auto buffer = device_->allocate(bytes.size());
  if (!buffer) {
    fail_with(std::move(buffer.error()));
    return {};
  }
  device_->upload(bytes.data(), buffer->data(), bytes.size());
  weight_bytes_ += bytes.size();
  return std::move(*buffer);
}

Buffer WeightLoader::upload_activations(std::span<const float> values) {
  if (device_->activation_dtype() == DType::kF32) return upload(std::as_bytes(values));
  const auto round = rounding_to(device_->activation_dtype());
  std::vector<uint16_t> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) rounded[i] = round(values[i]);
  return upload(std::as_bytes(std::span(rounded)));
}

}  // namespace hs
