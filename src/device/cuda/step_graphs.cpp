#include "device/cuda/step_graphs.h"

#include <bit>
#include <utility>

namespace hs::cuda {

StepGraphs::~StepGraphs() {
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
  auto known = graphs_.find(key);
  if (known == graphs_.end()) {
    Result<cudaGraphExec_t> recorded = record(work);
    if (!recorded && context_.is_lost()) return std::unexpected(std::move(recorded.error()));
    known = graphs_.emplace(key, recorded.value_or(nullptr)).first;
  }
  // What could not be recorded is called, and says itself what is wrong with it.
  if (known->second == nullptr) return work();
  return HS_CUDA(context_, cudaGraphLaunch(known->second, stream_));
}

// While recording, ops put nothing into the stream; what they say went wrong counts here.
Result<cudaGraphExec_t> StepGraphs::record(FunctionRef<Status()> work) {
  HS_TRY(context_.take_deferred());
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
