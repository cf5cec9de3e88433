// Steps as CUDA graphs: called and then recorded when a key is first seen, launched as one piece
// afterwards.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>

#include "device/cuda/context.h"
#include "device/device.h"

namespace hs::cuda {

class StepGraphs final : public StepRecorder {
 public:
  StepGraphs(Context& context, cudaStream_t stream) : context_(context), stream_(stream) {}
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs() override;

  // 1, 2, 4, 8, then multiples of 8; 0 beyond kRowsMax.
  int64_t padded_rows(int64_t n) const override;
  Status run(uint64_t key, FunctionRef<Status()> work) override;

  static constexpr int64_t kRowsMax = 64;

 private:
  Result<cudaGraphExec_t> record(FunctionRef<Status()> work);

  Context& context_;
  cudaStream_t stream_;
  std::map<uint64_t, cudaGraphExec_t> graphs_;  // null: cannot be recorded
};

}  // namespace hs::cuda
