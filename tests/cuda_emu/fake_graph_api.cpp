// The fake CUDA runtime: stream capture and graphs.
#include <algorithm>
#include <memory>
#include <utility>

#include "cuda_emu/fake_graph.h"

namespace hs::cuda_emu {
namespace {

// A launch: nodes in any order that the graph allows, between what the stream has before and after.
cudaError_t launch_graph(Machine& m, Stream& stream, GraphExec& exec) {
  OperationPtr begin, end;
  if (const cudaError_t e = m.submit_after(stream, {exec.last_launch}, &begin); e != cudaSuccess) {
    return e;
  }
  std::vector<OperationPtr> nodes;
  for (const GraphNode& node : exec.graph.nodes) {
    if (!m.spec().runs_kernels && node.work.type == cudaGraphNodeTypeKernel) {
      nodes.push_back(begin);
      continue;
    }
    auto op = std::make_shared<Operation>();
    op->what = "in a graph: " + node.work.what;
    op->device = node.device;
    op->stream = node.stream;
    op->start = node.work.start;
    op->run = node.work.run;
    std::vector<OperationPtr> after = {begin};
    for (const size_t before : node.after) after.push_back(nodes[before]);
    nodes.push_back(op);
    m.executor().add(op, after);
  }
  const cudaError_t error = m.submit_after(stream, std::move(nodes), &end);
  exec.last_launch = end;
  ++m.counters().graph_launches;
  return error;
}

// The first difference that an update cannot bridge.
cudaGraphExecUpdateResult difference(const Graph& old, const Graph& now) {
  if (old.nodes.size() != now.nodes.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (size_t i = 0; i < old.nodes.size(); ++i) {
    const GraphNode &a = old.nodes[i], &b = now.nodes[i];
    if (a.after != b.after) return cudaGraphExecUpdateErrorTopologyChanged;
    if (a.work.type != b.work.type) return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (a.device != b.device) return cudaGraphExecUpdateErrorNotSupported;
  }
  return cudaGraphExecUpdateSuccess;
}

cudaError_t instantiate(const char* name, cudaGraphExec_t* exec, cudaGraph_t graph) {
  return api(name, Needs::kContext, [&](Machine& m) {
    const auto g = m.graphs().get(graph);
    if (g == nullptr) return cudaErrorInvalidValue;
    auto made = std::make_shared<GraphExec>();
    made->graph = *g;
    made->device = g->device;
    *exec = m.graph_execs().add(std::move(made));
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace hs::cuda_emu

using hs::cuda_emu::api;
using hs::cuda_emu::Machine;
using hs::cuda_emu::Needs;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api("cudaStreamBeginCapture", Needs::kContext, [&](Machine& m) {
    const auto s = m.stream(stream);
    return s == nullptr ? cudaErrorInvalidResourceHandle : m.begin_capture(s, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return api("cudaStreamEndCapture", Needs::kContext, [&](Machine& m) {
    *graph = nullptr;
    const auto s = m.stream(stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    std::shared_ptr<hs::cuda_emu::Graph> made;
    const cudaError_t error = m.end_capture(s, &made);
    if (error == cudaSuccess) *graph = m.graphs().add(std::move(made));
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api("cudaStreamIsCapturing", Needs::kContext, [&](Machine& m) {
    const auto s = m.stream(stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    *status = s->capture == nullptr ? cudaStreamCaptureStatusNone
              : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api("cudaThreadExchangeStreamCaptureMode", Needs::kDriver, [&](Machine&) {
    std::swap(*mode, hs::cuda_emu::thread_state().capture_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* n) {
  return api("cudaGraphGetNodes", Needs::kContext, [&](Machine& m) {
    const auto g = m.graphs().get(graph);
    if (g == nullptr) return cudaErrorInvalidValue;
    if (nodes == nullptr) {
      *n = g->nodes.size();
      return cudaSuccess;
    }
    const size_t filled = std::min(*n, g->nodes.size());
    for (size_t i = 0; i < *n; ++i) nodes[i] = i < filled ? g->nodes[i].handle : nullptr;
    *n = filled;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return api("cudaGraphNodeGetType", Needs::kContext, [&](Machine& m) {
    const auto found = m.graph_nodes().get(node);
    if (found == nullptr) return cudaErrorInvalidValue;
    *type = *found;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api("cudaGraphDestroy", Needs::kContext, [&](Machine& m) {
    const auto g = m.graphs().get(graph);
    if (g == nullptr) return cudaErrorInvalidValue;
    for (const auto& node : g->nodes) m.graph_nodes().remove(node.handle);
    m.graphs().remove(graph);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return hs::cuda_emu::instantiate("cudaGraphInstantiate", exec, graph);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long) {
  return hs::cuda_emu::instantiate("cudaGraphInstantiateWithFlags", exec, graph);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  return api("cudaGraphExecUpdate", Needs::kContext, [&](Machine& m) {
    const auto e = m.graph_execs().get(exec);
    const auto g = m.graphs().get(graph);
    if (e == nullptr || g == nullptr) return cudaErrorInvalidValue;
    const cudaGraphExecUpdateResult found = hs::cuda_emu::difference(e->graph, *g);
    if (result != nullptr)
      *result = {.result = found, .errorNode = nullptr, .errorFromNode = nullptr};
    if (found != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
    e->graph = *g;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return api("cudaGraphUpload", Needs::kContext, [&](Machine& m) {
    if (m.graph_execs().get(exec) == nullptr) return cudaErrorInvalidValue;
    const auto s = m.stream(stream);
    return s == nullptr ? cudaErrorInvalidResourceHandle : m.submit(*s, {.what = "graph upload"});
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return api("cudaGraphLaunch", Needs::kContext, [&](Machine& m) {
    const auto e = m.graph_execs().get(exec);
    if (e == nullptr) {
      m.report("a graph that does not exist, or no more, is launched");
      return cudaErrorInvalidValue;
    }
    const auto s = m.stream(stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    if (s->capture != nullptr) return cudaErrorNotSupported;  // as a child graph
    return hs::cuda_emu::launch_graph(m, *s, *e);
  });
}

// Launches that are under way go on.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return api("cudaGraphExecDestroy", Needs::kContext, [&](Machine& m) {
    return m.graph_execs().remove(exec) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

}  // extern "C"
