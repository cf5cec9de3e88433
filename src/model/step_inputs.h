// A step's index arrays on the device: packed into one piece of host memory and sent in one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"
#include "model/model.h"

namespace hs {

class StepInputs {
 public:
  StepInputs() = default;
  // Room for every step of at most max_tokens tokens (and so sequences and samples), with block
  // tables of at most max_blocks entries.
  static Result<StepInputs> allocate(Device& device, int32_t n_axes, int32_t max_tokens,
                                     int32_t max_blocks);

  // Sends the step's arrays; pointers below are valid until the next call. Aborts on a step that
  // breaks LanguageStep's rules.
  void upload(Device& device, const LanguageStep& step);

  const int32_t* token_ids() const { return token_ids_; }
  const int32_t* sample_rows() const { return sample_rows_; }
  const AttentionBatch& batch() const { return batch_; }

 private:
  template <typename T>
  const T* append(const std::vector<T>& values);

  int32_t n_axes_ = 1;
  int32_t max_tokens_ = 0;
  int32_t max_blocks_ = 0;
  std::vector<std::byte> staging_;
  size_t used_ = 0;
  Buffer buffer_;
  const int32_t* token_ids_ = nullptr;
  const int32_t* sample_rows_ = nullptr;
  AttentionBatch batch_;
};

}  // namespace hs
