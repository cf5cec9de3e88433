#include "engine/embedding_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace hs {
namespace {

constexpr int64_t kCheckRows = 64;  // looked at together, so that the copy stays in the CPU's cache

// A value is NaN or infinite when all bits of its exponent are set.
template <typename Word>
bool exponents_finite(std::span<const std::byte> values, Word exponent) {
  Word bad = 0;
  for (size_t i = 0; i + sizeof(Word) <= values.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, values.data() + i, sizeof(Word));
    bad = static_cast<Word>(bad | static_cast<Word>((word & exponent) == exponent));
  }
  return bad == 0;
}

}  // namespace

bool all_finite(std::span<const std::byte> values, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return exponents_finite<uint32_t>(values, 0x7f800000U);
    case DType::kBF16:
      return exponents_finite<uint16_t>(values, uint16_t{0x7f80});
    case DType::kF16:
      return exponents_finite<uint16_t>(values, uint16_t{0x7c00});
    default:
      break;
  }
  HS_CHECK(false && "embeddings have a floating point format");
  return false;
}

EmbeddingTransfer::EmbeddingTransfer(VisionModel& vision, Device& vision_device,
                                     Device& language_device, const Options& options)
    : vision_(vision),
      vision_device_(vision_device),
      language_device_(language_device),
      options_(options),
      dtype_(language_device.activation_dtype()) {}

Result<std::unique_ptr<EmbeddingTransfer>> EmbeddingTransfer::create(VisionModel& vision,
                                                                     Device& vision_device,
                                                                     Device& language_device,
                                                                     const Options& options) {
  if (vision_device.activation_dtype() != language_device.activation_dtype()) {
    return fail(ErrorKind::kUnsupported, fmt::format("embeddings are {} on {} but {} on {}",
                                                     dtype_name(vision_device.activation_dtype()),
                                                     to_string(vision_device.id()),
                                                     dtype_name(language_device.activation_dtype()),
                                                     to_string(language_device.id())));
  }
  std::unique_ptr<EmbeddingTransfer> transfer(
      new EmbeddingTransfer(vision, vision_device, language_device, options));
  if (Status status = transfer->allocate(); !status) return std::unexpected(status.error());
  return transfer;
}

Status EmbeddingTransfer::allocate() {
  Result<Buffer> slots =
      language_device_.allocate(static_cast<size_t>(options_.n_rows) * row_bytes());
  if (!slots) return std::unexpected(slots.error());
  slots_ = std::move(*slots);
  if (same_device()) {
    host_.resize(static_cast<size_t>(kCheckRows) * row_bytes());
    return {};
  }
  const size_t encode_bytes = static_cast<size_t>(options_.max_encode_rows) * row_bytes();
  Result<Buffer> tower_out = vision_device_.allocate(encode_bytes);
  if (!tower_out) return std::unexpected(tower_out.error());
  tower_out_ = std::move(*tower_out);
  host_.resize(static_cast<size_t>(options_.n_buffers) * encode_bytes);
  return {};
}

Matrix EmbeddingTransfer::slot_rows(int64_t first, int64_t n) const {
  HS_CHECK_GE(first, 0);
  HS_CHECK_LE(first + n, options_.n_rows);
  const Matrix all{.data = const_cast<void*>(slots_.data()),
                   .dtype = dtype_,
                   .rows = options_.n_rows,
                   .cols = options_.dim,
                   .stride = options_.dim};
  return all.row_range(first, n);
}

std::span<std::byte> EmbeddingTransfer::host_rows(int32_t buffer, int64_t first, int64_t n) {
  HS_CHECK_GE(buffer, 0);
  HS_CHECK_LT(buffer, options_.n_buffers);
  HS_CHECK_LE(first + n, options_.max_encode_rows);
  const auto row = static_cast<size_t>(buffer * options_.max_encode_rows + first);
  return std::span(host_).subspan(row * row_bytes(), static_cast<size_t>(n) * row_bytes());
}

Result<bool> EmbeddingTransfer::finite_on_device(Matrix rows) {
  bool finite = true;
  for (int64_t first = 0; first < rows.rows && finite; first += kCheckRows) {
    const int64_t n = std::min(kCheckRows, rows.rows - first);
    const std::span<std::byte> host = std::span(host_).first(static_cast<size_t>(n) * row_bytes());
    vision_device_.download(rows.row_range(first, n).data, host.data(), host.size());
    if (Status status = vision_device_.sync(); !status) return std::unexpected(status.error());
    finite = all_finite(host, dtype_);
  }
  return finite;
}

Status EmbeddingTransfer::encode(const EncodeOrder& order,
                                 std::span<const std::shared_ptr<const ImagePatches>> images,
                                 std::span<ImageOutcome> outcomes) {
  HS_CHECK_EQ(images.size(), order.items.size());
  HS_CHECK_EQ(outcomes.size(), order.items.size());
  HS_CHECK_LE(order.n_rows, options_.max_encode_rows);
  std::vector<const ImagePatches*> pointers;
  for (size_t i = 0; i < images.size(); ++i) {
    HS_CHECK_EQ(vision_.tokens_of(*images[i]), order.items[i].n_rows);
    pointers.push_back(images[i].get());
  }
  Matrix out{.data = tower_out_.data(),
             .dtype = dtype_,
             .rows = order.n_rows,
             .cols = options_.dim,
             .stride = options_.dim};
  if (same_device()) out = slot_rows(order.first_row, order.n_rows);
  if (Status status = vision_.encode(pointers, out); !status) return status;
  if (!same_device()) {
    const std::span<std::byte> host = host_rows(order.buffer, 0, order.n_rows);
    vision_device_.download(out.data, host.data(), host.size());
  }
  if (Status status = vision_device_.sync(); !status) return status;

  int64_t row = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const int64_t n = order.items[i].n_rows;
    bool finite = false;
    if (same_device()) {
      Result<bool> result = finite_on_device(out.row_range(row, n));
      if (!result) return std::unexpected(result.error());
      finite = *result;
    } else {
      finite = all_finite(host_rows(order.buffer, row, n), dtype_);
    }
    outcomes[i] = finite ? ImageOutcome::kOk : ImageOutcome::kFailed;
    row += n;
  }
  return {};
}

Result<int64_t> EmbeddingTransfer::transfer(const TransferOrder& order) {
  HS_CHECK(!same_device());
  int64_t bytes = 0;
  for (const TransferOrder::Item& item : order.items) {
    const std::span<std::byte> host = host_rows(order.buffer, item.buffer_row, item.n_rows);
    language_device_.upload(host.data(), slot_rows(item.first_row, item.n_rows).data, host.size());
    bytes += static_cast<int64_t>(host.size());
  }
  if (Status status = language_device_.sync(); !status) return std::unexpected(status.error());
  return bytes;
}

}  // namespace hs
