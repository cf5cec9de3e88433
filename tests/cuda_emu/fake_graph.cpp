#include "cuda_emu/fake_graph.h"

#include <algorithm>
#include <utility>

namespace hs::cuda_emu {
namespace {

void add_all(std::vector<size_t>& to, const std::vector<size_t>& from) {
  for (const size_t node : from) {
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
  }
}

void leave(Capture& capture) {
  capture.ended = true;
  for (const StreamPtr& stream : capture.streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
  capture.streams.clear();
}

// Whether everything comes before the end of the origin stream.
bool is_joined(const Graph& graph, const std::vector<size_t>& tail) {
  std::vector<bool> before_end(graph.nodes.size(), false);
  for (const size_t node : tail) before_end[node] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {  // nodes come after what they wait for
    if (!before_end[i]) return false;
    for (const size_t node : graph.nodes[i].after) before_end[node] = true;
  }
  return true;
}

}  // namespace

cudaError_t Machine::add_to_capture(Stream& stream, Work work) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  auto& nodes = capture.graph.nodes;
  auto type = std::make_shared<cudaGraphNodeType>(work.type);
  nodes.push_back({.work = std::move(work),
                   .device = stream.device,
                   .stream = stream.number,
                   .after = stream.tail,
                   .handle = graph_nodes_.add(std::move(type))});
  stream.tail = {nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t Machine::check_captures() {
  const ThreadState& self = thread_state();
  if (self.capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const auto& capture : captures_) {
    const bool own = capture->owner == std::this_thread::get_id();
    const bool disturbed = capture->mode == cudaStreamCaptureModeGlobal
                               ? own || self.capture_mode == cudaStreamCaptureModeGlobal
                               : own && capture->mode == cudaStreamCaptureModeThreadLocal;
    if (disturbed) error = refuse_in_capture(*capture);
  }
  return error;
}

cudaError_t Machine::check_implicit(const Stream& stream) {
  if (!stream.is_default) return cudaSuccess;
  for (const auto& capture : captures_) {
    for (const StreamPtr& other : capture->streams) {
      if (other->device != stream.device || !other->blocking) continue;
      capture->invalid = true;
      return cudaErrorStreamCaptureImplicit;
    }
  }
  return cudaSuccess;
}

cudaError_t Machine::refuse_in_capture(Capture& capture) {
  capture.invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t Machine::refuse_captured_event(Event& event) {
  event.capture->invalid = true;
  return cudaErrorCapturedEvent;
}

cudaError_t Machine::begin_capture(const StreamPtr& stream, cudaStreamCaptureMode mode) {
  if (stream->is_default) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->graph.device = stream->device;
  capture->origin = stream->number;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->streams.push_back(stream);
  stream->capture = capture;
  stream->tail.clear();
  captures_.push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t Machine::end_capture(const StreamPtr& stream, std::shared_ptr<Graph>* graph) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream->number) {
    capture->invalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->owner != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool joined = is_joined(capture->graph, stream->tail);
  leave(*capture);
  std::erase(captures_, capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = std::make_shared<Graph>(std::move(capture->graph));
  return cudaSuccess;
}

cudaError_t Machine::record_captured(Event& event, Stream& stream) {
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  event.capture = stream.capture;
  event.nodes = stream.tail;
  return cudaSuccess;
}

cudaError_t Machine::wait_captured(const StreamPtr& stream, const Event& event) {
  if (stream->capture == nullptr) {
    if (event.capture->ended) return cudaErrorCapturedEvent;
    if (event.capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (stream->is_default) {
      event.capture->invalid = true;
      return cudaErrorStreamCaptureImplicit;
    }
    stream->capture = event.capture;
    stream->tail = event.nodes;
    event.capture->streams.push_back(stream);
    return cudaSuccess;
  }
  Capture& capture = *stream->capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  if (event.capture == stream->capture) {
    add_all(stream->tail, event.nodes);
    return cudaSuccess;
  }
  if (event.capture == nullptr && event.record == nullptr) return cudaSuccess;
  capture.invalid = true;
  if (event.capture == nullptr || event.capture->ended) return cudaErrorStreamCaptureIsolation;
  event.capture->invalid = true;
  return cudaErrorStreamCaptureMerge;
}

}  // namespace hs::cuda_emu
