// Proves stream capture and graphs of the fake CUDA runtime: what is replayed, what a capture
// refuses, and that stale pointers in a graph show.
#include <thread>

#include "cuda/fake_runtime_testing.h"

namespace hs::test {
namespace {

struct Captured {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

// What work() puts into the stream, as a graph; null if the capture failed.
template <typename Work>
Captured capture(cudaStream_t stream, const Work& work,
                 cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
  Captured made;
  BOOST_TEST(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
  work();
  if (cudaStreamEndCapture(stream, &made.graph) != cudaSuccess) return made;
  BOOST_TEST(cudaGraphInstantiate(&made.exec, made.graph, 0) == cudaSuccess);
  return made;
}

void destroy(const Captured& captured) {
  BOOST_TEST(cudaGraphExecDestroy(captured.exec) == cudaSuccess);
  BOOST_TEST(cudaGraphDestroy(captured.graph) == cudaSuccess);
}

// A capture in which work() must fail with `error` is lost.
template <typename Work>
void check_refused(cudaStream_t stream, cudaError_t error, const Work& work,
                   cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
  cudaGraph_t graph = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  BOOST_TEST(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
  BOOST_TEST(work() == error);
  BOOST_TEST(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  BOOST_TEST(status == cudaStreamCaptureStatusInvalidated);
  BOOST_TEST(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  BOOST_TEST(graph == nullptr);
  BOOST_TEST(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  BOOST_TEST(status == cudaStreamCaptureStatusNone);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fake_graph_tests)

BOOST_AUTO_TEST_CASE(a_graph_does_again_what_was_captured_and_capturing_does_nothing) {
  FakeMachine machine(two_tiers(3));
  int* const in = pinned_ints(1);
  int* const out = pinned_ints(0);
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  const Captured graph = capture(stream, [&] {
    BOOST_TEST(cudaMemcpyAsync(a, in, kBytes, cudaMemcpyHostToDevice, stream) == cudaSuccess);
    BOOST_TEST(add(a, a, 10, stream) == cudaSuccess);
    BOOST_TEST(add(a, a, 20, stream) == cudaSuccess);
    BOOST_TEST(cudaMemcpyAsync(out, a, kBytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  });
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  BOOST_TEST(all_are(out, 0));
  size_t n_nodes = 0;
  BOOST_TEST(cudaGraphGetNodes(graph.graph, nullptr, &n_nodes) == cudaSuccess);
  BOOST_REQUIRE(n_nodes == 4);
  cudaGraphNode_t nodes[4];
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  BOOST_TEST(cudaGraphGetNodes(graph.graph, nodes, &n_nodes) == cudaSuccess);
  BOOST_TEST(cudaGraphNodeGetType(nodes[1], &type) == cudaSuccess);
  BOOST_TEST(type == cudaGraphNodeTypeKernel);
  for (int value = 1; value < 4; ++value) {
    std::fill_n(in, kCount, value);
    BOOST_TEST(cudaGraphLaunch(graph.exec, stream) == cudaSuccess);
    BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
    BOOST_TEST(all_are(out, value + 30));
  }
  BOOST_TEST(machine.counters().graph_launches == 3);
  destroy(graph);
  BOOST_TEST(cudaGraphLaunch(graph.exec, stream) == cudaErrorInvalidValue);
  BOOST_TEST(machine.leaks().size() == 4);  // in, out, a, the stream
}

BOOST_AUTO_TEST_CASE(forked_streams_keep_their_order_and_no_more) {
  // first: a = 1; second, after it: b = a + 1; first: c = a + 1; joined: c = c + ... reads b.
  const auto right = [](bool joined_by_event) {
    return [joined_by_event](FakeMachine&) {
      int* const in = pinned_ints(1);
      int* const out = pinned_ints(0);
      int* const a = device_ints(0);
      int* const b = device_ints(0);
      const cudaStream_t first = new_stream(0), second = new_stream(0);
      const cudaEvent_t forked = new_event(0), joined = new_event(0);
      const Captured graph = capture(first, [&] {
        cudaMemcpyAsync(a, in, kBytes, cudaMemcpyHostToDevice, first);
        cudaEventRecord(forked, first);
        cudaStreamWaitEvent(second, forked, 0);
        add(a, b, 1, second);
        if (joined_by_event) {
          cudaEventRecord(joined, second);
          cudaStreamWaitEvent(first, joined, 0);
        }
        add(b, a, 1, first);
        cudaMemcpyAsync(out, a, kBytes, cudaMemcpyDeviceToHost, first);
        if (!joined_by_event) {
          cudaEventRecord(joined, second);
          cudaStreamWaitEvent(first, joined, 0);
        }
      });
      BOOST_TEST(cudaGraphLaunch(graph.exec, first) == cudaSuccess);
      BOOST_TEST(cudaStreamSynchronize(first) == cudaSuccess);
      return all_are(out, 3);
    };
  };
  BOOST_TEST(seeds_that_show(right(true)) == 0);
  BOOST_TEST(seeds_that_show(right(false)) > 0);
}

BOOST_AUTO_TEST_CASE(launches_of_one_graph_follow_each_other_in_any_stream) {
  BOOST_TEST(seeds_that_show([](FakeMachine& machine) {
               int* const a = device_ints(0);
               const cudaStream_t first = new_stream(0), second = new_stream(0);
               cudaMemset(a, 0, kBytes);
               cudaDeviceSynchronize();
               const Captured graph = capture(first, [&] {
                 add(a, a, 1, first);
                 add(a, a, 1, first);
               });
               cudaGraphLaunch(graph.exec, first);
               cudaGraphLaunch(graph.exec, second);
               cudaStreamSynchronize(second);
               int value = 0;
               machine.peek(&value, a, sizeof value);
               return value == 4;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(calls_that_a_capture_cannot_take_end_it) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  int* const there = device_ints(1);
  const cudaStream_t stream = new_stream(0);
  const cudaEvent_t event = new_event(0);
  BOOST_TEST(cudaEventRecord(event, stream) == cudaSuccess);
  void* p = nullptr;
  const cudaError_t no = cudaErrorStreamCaptureUnsupported;
  check_refused(stream, no, [&] { return cudaMalloc(&p, 16); });
  check_refused(stream, no, [&] { return cudaFree(a); });
  check_refused(stream, no, [&] { return cudaMallocHost(&p, 16); });
  check_refused(stream, no, [&] { return cudaStreamSynchronize(stream); });
  check_refused(stream, no, [&] { return cudaStreamQuery(stream); });
  check_refused(stream, no, [&] { return cudaDeviceSynchronize(); });
  check_refused(stream, no, [&] { return cudaEventQuery(event); });
  check_refused(stream, no, [&] { return cudaMemset(a, 0, kBytes); });
  check_refused(stream, no, [&] { return cudaMemcpyPeerAsync(there, 1, a, 0, kBytes, stream); });
  check_refused(stream, cudaErrorStreamCaptureIsolation,
                [&] { return cudaStreamWaitEvent(stream, event, 0); });
  BOOST_TEST(add(a, a, 1, stream) == cudaSuccess);  // the stream is as it was
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(the_default_stream_is_refused_while_a_blocking_stream_is_captured) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  cudaStream_t blocking = nullptr;
  BOOST_TEST(cudaStreamCreate(&blocking) == cudaSuccess);
  check_refused(blocking, cudaErrorStreamCaptureImplicit,
                [&] { return cudaMemsetAsync(a, 0, kBytes, nullptr); });
  const Captured other = capture(
      new_stream(0), [&] { BOOST_TEST(cudaMemsetAsync(a, 0, kBytes, nullptr) == cudaSuccess); });
  BOOST_TEST(other.exec != nullptr);
}

BOOST_AUTO_TEST_CASE(another_threads_calls_end_a_global_capture_and_no_thread_local_one) {
  FakeMachine machine(two_tiers());
  const cudaStream_t stream = new_stream(0);
  const auto elsewhere = [] {
    cudaError_t error = cudaSuccess;
    std::thread([&] {
      void* p = nullptr;
      error = cudaMalloc(&p, 16);
    }).join();
    return error;
  };
  check_refused(stream, cudaErrorStreamCaptureUnsupported, elsewhere);
  const Captured made = capture(
      stream, [&] { BOOST_TEST(elsewhere() == cudaSuccess); }, cudaStreamCaptureModeThreadLocal);
  BOOST_TEST(made.exec != nullptr);
}

BOOST_AUTO_TEST_CASE(captures_end_where_they_began_with_all_streams_joined) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  const cudaStream_t first = new_stream(0), second = new_stream(0);
  const cudaEvent_t event = new_event(0);
  cudaGraph_t graph = nullptr;
  BOOST_TEST(cudaStreamEndCapture(first, &graph) == cudaErrorIllegalState);
  BOOST_TEST(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal) == cudaSuccess);
  BOOST_TEST(cudaEventRecord(event, first) == cudaSuccess);
  BOOST_TEST(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);
  BOOST_TEST(cudaMemsetAsync(a, 0, kBytes, second) == cudaSuccess);
  BOOST_TEST(cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureUnjoined);
  BOOST_TEST(cudaStreamWaitEvent(second, event, 0) == cudaErrorCapturedEvent);
  BOOST_TEST(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal) == cudaSuccess);
  BOOST_TEST(cudaEventRecord(event, first) == cudaSuccess);
  BOOST_TEST(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);
  BOOST_TEST(cudaStreamEndCapture(second, &graph) == cudaErrorStreamCaptureUnmatched);
  BOOST_TEST(cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureInvalidated);
}

BOOST_AUTO_TEST_CASE(a_graph_that_uses_freed_memory_loses_the_device) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  const Captured graph = capture(stream, [&] { add(a, a, 1, stream); });
  BOOST_TEST(cudaGraphLaunch(graph.exec, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  BOOST_TEST(cudaFree(a) == cudaSuccess);
  BOOST_TEST(device_ints(0) != a);  // addresses are not used again
  BOOST_TEST(cudaGraphLaunch(graph.exec, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  BOOST_TEST(any_says(machine.reports(), "of the freed allocation 1 of device 0"));
}

BOOST_AUTO_TEST_CASE(an_update_brings_new_pointers_and_the_same_shape) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  int* const b = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  const Captured graph = capture(stream, [&] { cudaMemsetAsync(a, 1, kBytes, stream); });
  const Captured other = capture(stream, [&] { cudaMemsetAsync(b, 2, kBytes, stream); });
  const Captured longer = capture(stream, [&] {
    cudaMemsetAsync(b, 2, kBytes, stream);
    cudaMemsetAsync(a, 2, kBytes, stream);
  });
  cudaGraphExecUpdateResultInfo info = {};
  BOOST_TEST(cudaGraphExecUpdate(graph.exec, other.graph, &info) == cudaSuccess);
  BOOST_TEST(cudaGraphLaunch(graph.exec, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  int values[2] = {};
  machine.peek(&values[0], a, sizeof(int));
  machine.peek(&values[1], b, sizeof(int));
  BOOST_TEST(values[0] == -1);
  BOOST_TEST(values[1] == 0x02020202);
  BOOST_TEST(cudaGraphExecUpdate(graph.exec, longer.graph, &info) ==
             cudaErrorGraphExecUpdateFailure);
  BOOST_TEST(info.result == cudaGraphExecUpdateErrorTopologyChanged);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
