// The hand-over of image embeddings from the vision tower to the language model: the memory behind
// the receive slots (embedding_slots.h), and the work of filling it.
//
// One device: the tower writes straight into the slots. Two devices: the tower writes to its own
// device, the rows go to a transfer buffer in host memory (vision lane), and from there into the
// slots (language lane). All memory is allocated at create().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "engine/scheduler.h"
#include "model/model.h"

namespace hs {

class EmbeddingTransfer {
 public:
  struct Options {
    int32_t dim = 0;              // width of an embedding
    int64_t n_rows = 0;           // of the slots' memory
    int64_t max_encode_rows = 0;  // of one encode order
    int32_t n_buffers = 2;        // between two devices; not used on one
  };
  // Everything must outlive the result. Errors: kUnsupported for devices with different activation
  // formats, and what allocation says.
  static Result<std::unique_ptr<EmbeddingTransfer>> create(VisionModel& vision,
                                                           Device& vision_device,
                                                           Device& language_device,
                                                           const Options& options);
  EmbeddingTransfer(const EmbeddingTransfer&) = delete;
  EmbeddingTransfer& operator=(const EmbeddingTransfer&) = delete;

  bool same_device() const { return &vision_device_ == &language_device_; }
  size_t value_bytes() const { return dtype_bytes(dtype_); }
  // A row of the slots' memory, on the language device. Any thread.
  const void* row(int64_t row) const { return slot_rows(row, 1).data; }

  // Vision lane. Runs the tower over the order's pictures and leaves the rows in the slots (one
  // device) or in transfer buffer order.buffer. outcomes: kFailed for each picture with a NaN or
  // infinity among its embeddings.
  Status encode(const EncodeOrder& order,
                std::span<const std::shared_ptr<const ImagePatches>> images,
                std::span<ImageOutcome> outcomes);
  // Language lane, two devices only: transfer buffer -> slots. Returns the bytes moved.
  Result<int64_t> transfer(const TransferOrder& order);

 private:
  EmbeddingTransfer(VisionModel& vision, Device& vision_device, Device& language_device,
                    const Options& options);
  Status allocate();
  Matrix slot_rows(int64_t first, int64_t n) const;
  std::span<std::byte> host_rows(int32_t buffer, int64_t first, int64_t n);
  size_t row_bytes() const { return static_cast<size_t>(options_.dim) * dtype_bytes(dtype_); }
  Result<bool> finite_on_device(Matrix rows);

  VisionModel& vision_;
  Device& vision_device_;
  Device& language_device_;
  Options options_;
  DType dtype_;
  Buffer slots_;      // (n_rows, dim) on the language device
  Buffer tower_out_;  // (max_encode_rows, dim) on the vision device; two devices only
  std::vector<std::byte>
      host_;  // transfer buffers (n_buffers, max_encode_rows, dim), or a few rows to look at
};

// Whether no NaN or infinity stands among the values. dtype: kF32, kBF16 or kF16.
bool all_finite(std::span<const std::byte> values, DType dtype);

}  // namespace hs
