#include "device/cuda/step_graphs.h"

#include <bit>
#include <utility>

namespace hs::cuda {

StepGraphs::~StepGraphs() {
  if (!graphs_.empty()) static_cast<void>(context_.use());
  for (const auto& [key, graph] : graphs_) {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
}

int64_t StepGraphs::padded_rows(int64_t n) const {
  if (n > kRowsMax) return 0;
  if (n <= 8) return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  return (n + 7) / 8 * 8;
}

Status StepGraphs::run(uint64_t key, FunctionRef<Status()> work) {
  HS_TRY(context_.use());
  const auto known = graphs_.find(key);
  if (known != graphs_.end() && known->second != nullptr) {
    return HS_CUDA(context_, cudaGraphLaunch(known->second, stream_));
  }
  // A new one is called first: what the driver or a library loads or chooses when it first sees an
  // op could not happen while recording. One that cannot be recorded is called every time.
  HS_TRY(work());
  if (known != graphs_.end()) return {};
  HS_TRY(context_.take_deferred());
  Result<cudaGraphExec_t> recorded = record(work);
  if (!recorded && context_.is_lost()) return std::unexpected(std::move(recorded.error()));
  graphs_.emplace(key, recorded.value_or(nullptr));
  return {};
}

// While recording, ops put nothing into the stream; what they say went wrong counts here.
Result<cudaGraphExec_t> StepGraphs::record(FunctionRef<Status()> work) {
  HS_CUDA_TRY(context_, cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  Status worked = work();
  if (worked) worked = context_.take_deferred();
  cudaGraph_t graph = nullptr;
  Status ended = HS_CUDA(context_, cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t exec = nullptr;
  Status made = worked ? std::move(ended) : std::move(worked);
  if (made) made = HS_CUDA(context_, cudaGraphInstantiate(&exec, graph, 0));
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!made) return std::unexpected(std::move(made.error()));
  return exec;
}

}  // namespace hs::cuda
