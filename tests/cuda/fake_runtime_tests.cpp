// Proves the fake CUDA runtime: what the API orders is right under every seed, and each kind of
// mistake of a host program shows.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "cuda/fake_runtime_testing.h"

namespace hs::test {
namespace {

// in -> a -> b -> out over two streams: b's stream waits for a's if `event`.
bool two_streams(bool event, bool wait) {
  int* const in = pinned_ints(1);
  int* const out = pinned_ints(0);
  int* const a = device_ints(0);
  int* const b = device_ints(0);
  const cudaStream_t first = new_stream(0), second = new_stream(0);
  const cudaEvent_t done = new_event(0);
  BOOST_TEST(cudaMemcpyAsync(a, in, kBytes, cudaMemcpyHostToDevice, first) == cudaSuccess);
  BOOST_TEST(add(a, a, 10, first) == cudaSuccess);
  BOOST_TEST(cudaEventRecord(done, first) == cudaSuccess);
  if (event) BOOST_TEST(cudaStreamWaitEvent(second, done, 0) == cudaSuccess);
  BOOST_TEST(add(a, b, 100, second) == cudaSuccess);
  BOOST_TEST(cudaMemcpyAsync(out, b, kBytes, cudaMemcpyDeviceToHost, second) == cudaSuccess);
  if (wait) BOOST_TEST(cudaStreamSynchronize(second) == cudaSuccess);
  const bool right = all_are(out, 111);
  BOOST_TEST(cudaDeviceSynchronize() == cudaSuccess);
  return right;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fake_runtime_tests)

BOOST_AUTO_TEST_CASE(without_a_machine_there_is_no_device) {
  int count = 7;
  BOOST_TEST(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  BOOST_TEST(count == 0);
}

BOOST_AUTO_TEST_CASE(the_device_table_is_what_the_test_says) {
  const FakeMachine machine(two_tiers());
  int count = 0, major = 0, minor = 0, version = 0;
  BOOST_TEST(cudaGetDeviceCount(&count) == cudaSuccess);
  BOOST_TEST(count == 2);
  cudaDeviceProp properties;
  BOOST_TEST(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  BOOST_TEST(std::string(properties.name) == "NVIDIA GeForce RTX 4090");
  BOOST_TEST(properties.totalGlobalMem == size_t{4} << 20);
  BOOST_TEST(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess);
  BOOST_TEST(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) == cudaSuccess);
  BOOST_TEST(major * 10 + minor == 89);
  char id[16] = {};
  BOOST_TEST(cudaDeviceGetPCIBusId(id, sizeof id, 1) == cudaSuccess);
  BOOST_TEST(std::string(id) == "0000:C1:00.0");
  BOOST_TEST(cudaDriverGetVersion(&version) == cudaSuccess);
  BOOST_TEST(version == 13000);
  BOOST_TEST(cudaSetDevice(2) == cudaErrorInvalidDevice);
  BOOST_TEST(std::string(cudaGetErrorName(cudaErrorInvalidDevice)) == "cudaErrorInvalidDevice");
  BOOST_TEST(std::string(cudaGetErrorString(cudaErrorInvalidDevice)) == "invalid device ordinal");
}

BOOST_AUTO_TEST_CASE(no_device_no_driver_and_an_old_driver_each_have_their_error) {
  int count = 0, version = 1;
  {
    const FakeMachine none({.devices = {}});
    BOOST_TEST(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  }
  {
    const FakeMachine no_driver({.devices = {cuda_emu::a100()}, .driver_version = 0});
    BOOST_TEST(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
    BOOST_TEST(cudaDriverGetVersion(&version) == cudaSuccess);
    BOOST_TEST(version == 0);
  }
  const FakeMachine old({.devices = {cuda_emu::a100()}, .driver_version = 11080});
  BOOST_TEST(cudaSetDevice(0) == cudaErrorInsufficientDriver);
}

BOOST_AUTO_TEST_CASE(what_events_order_is_right_under_every_seed_and_order) {
  for (const Order order : {Order::kEager, Order::kLazy, Order::kShuffled}) {
    BOOST_TEST(seeds_that_show([](FakeMachine&) { return two_streams(true, true); }, order) == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_missing_event_between_streams_is_seen) {
  const auto right = [](FakeMachine&) { return two_streams(false, true); };
  BOOST_TEST(seeds_that_show(right) > kSeeds / 4);
  BOOST_TEST(seeds_that_show(right, Order::kLazy) == kSeeds);
}

BOOST_AUTO_TEST_CASE(a_missing_wait_before_the_host_reads_is_seen) {
  const auto right = [](FakeMachine&) { return two_streams(true, false); };
  BOOST_TEST(seeds_that_show(right) > kSeeds / 2);
  BOOST_TEST(seeds_that_show(right, Order::kLazy) == kSeeds);
}

BOOST_AUTO_TEST_CASE(a_source_that_the_host_changes_too_early_is_seen) {
  BOOST_TEST(seeds_that_show([](FakeMachine&) {
               int* const in = pinned_ints(1);
               int* const out = pinned_ints(0);
               int* const a = device_ints(0);
               const cudaStream_t stream = new_stream(0);
               cudaMemcpyAsync(a, in, kBytes, cudaMemcpyHostToDevice, stream);
               std::fill_n(in, kCount, 2);
               cudaMemcpyAsync(out, a, kBytes, cudaMemcpyDeviceToHost, stream);
               cudaStreamSynchronize(stream);
               return all_are(out, 1);
             }) > kSeeds / 4);
}

BOOST_AUTO_TEST_CASE(a_wait_names_the_record_that_was_there_when_it_was_called) {
  BOOST_TEST(seeds_that_show([](FakeMachine& machine) {
               int* const a = device_ints(0);
               const cudaStream_t first = new_stream(0), second = new_stream(0);
               const cudaEvent_t event = new_event(0);
               cudaStreamWaitEvent(second, event, 0);  // never recorded: nothing to wait for
               cudaMemsetAsync(a, 0, kBytes, first);
               cudaEventRecord(event, first);
               cudaStreamWaitEvent(second, event, 0);
               cudaMemsetAsync(a, 1, kBytes, second);
               cudaEventRecord(event, second);  // again, elsewhere
               cudaEventSynchronize(event);
               int value = 0;
               machine.peek(&value, a, sizeof value);
               return value == 0x01010101;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(blocking_streams_are_ordered_against_the_default_stream_and_others_are_not) {
  const auto right = [](unsigned flags) {
    return [flags](FakeMachine&) {
      int* const in = pinned_ints(3);
      int* const out = pinned_ints(0);
      int* const a = device_ints(0);
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, flags);
      cudaMemcpyAsync(a, in, kBytes, cudaMemcpyHostToDevice, stream);
      add(a, a, 1, nullptr);
      cudaMemcpyAsync(out, a, kBytes, cudaMemcpyDeviceToHost, stream);
      cudaStreamSynchronize(stream);
      return all_are(out, 4);
    };
  };
  BOOST_TEST(seeds_that_show(right(cudaStreamDefault)) == 0);
  BOOST_TEST(seeds_that_show(right(cudaStreamNonBlocking)) > kSeeds / 4);
}

BOOST_AUTO_TEST_CASE(an_event_that_is_asked_often_enough_is_done) {
  for (const Order order : {Order::kEager, Order::kLazy, Order::kShuffled}) {
    FakeMachine machine(two_tiers(5, order));
    int* const a = device_ints(0);
    const cudaStream_t stream = new_stream(0);
    const cudaEvent_t event = new_event(0);
    for (int i = 0; i < 3; ++i) cudaMemsetAsync(a, i, kBytes, stream);
    cudaEventRecord(event, stream);
    int asked = 1;
    while (cudaEventQuery(event) == cudaErrorNotReady && asked < 100) ++asked;
    BOOST_TEST(asked < 100);
    if (order == Order::kLazy) BOOST_TEST(asked > 1);
    BOOST_TEST(cudaStreamQuery(stream) == cudaSuccess);
  }
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_run) {
  const auto run = [](uint64_t seed) {
    FakeMachine machine(two_tiers(seed));
    two_streams(false, false);
    std::vector<uint64_t> seen;
    int* const a = device_ints(0);
    const cudaStream_t streams[] = {new_stream(0), new_stream(0), new_stream(0)};
    for (int i = 0; i < 30; ++i) {
      cudaMemsetAsync(a, i, kBytes, streams[i % 3]);
      int value = 0;
      machine.peek(&value, a, sizeof value);
      seen.push_back(static_cast<uint64_t>(value));
    }
    return seen;
  };
  BOOST_TEST((run(3) == run(3)));
  bool differs = false;
  for (uint64_t seed = 4; seed < 10; ++seed) differs |= run(3) != run(seed);
  BOOST_TEST(differs);
}

BOOST_AUTO_TEST_CASE(a_copy_with_pageable_memory_is_staged_and_counted) {
  FakeMachine machine(two_tiers(2, Order::kLazy));
  std::vector<int> in(kCount, 5), out(kCount, 0);
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  BOOST_TEST(cudaMemcpyAsync(a, in.data(), kBytes, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  std::fill(in.begin(), in.end(), 6);  // the source was copied aside
  BOOST_TEST(cudaMemcpyAsync(out.data(), a, kBytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  BOOST_TEST(all_are(out.data(), 5));  // the call came back when it was there
  BOOST_TEST(machine.counters().pageable_async_copies == 2);
  BOOST_TEST(cudaHostRegister(in.data(), kBytes, 0) == cudaSuccess);
  BOOST_TEST(cudaMemcpyAsync(a, in.data(), kBytes, cudaMemcpyDefault, stream) == cudaSuccess);
  BOOST_TEST(machine.counters().pageable_async_copies == 2);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  BOOST_TEST(cudaHostUnregister(in.data()) == cudaSuccess);
  BOOST_TEST(cudaHostUnregister(in.data()) == cudaErrorHostMemoryNotRegistered);
}

BOOST_AUTO_TEST_CASE(memory_ends_at_the_limit_and_comes_back) {
  FakeMachine machine(two_tiers());
  void *p = nullptr, *q = nullptr;
  size_t free_bytes = 0, total_bytes = 0;
  BOOST_TEST(cudaMalloc(&p, size_t{3} << 20) == cudaSuccess);
  BOOST_TEST(cudaMalloc(&q, size_t{2} << 20) == cudaErrorMemoryAllocation);
  BOOST_TEST(q == nullptr);
  BOOST_TEST(cudaGetLastError() == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
  BOOST_TEST(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess);
  BOOST_TEST(free_bytes == size_t{1} << 20);
  BOOST_TEST(total_bytes == size_t{4} << 20);
  BOOST_TEST(cudaMalloc(&q, free_bytes) == cudaSuccess);
  BOOST_TEST(machine.leaks().size() == 2);
  BOOST_TEST(cudaFree(p) == cudaSuccess);
  BOOST_TEST(cudaFree(q) == cudaSuccess);
  BOOST_TEST(cudaFree(q) == cudaErrorInvalidValue);
  BOOST_TEST(any_says(machine.reports(), "cudaFree of"));
  BOOST_TEST(machine.leaks().empty());
}

BOOST_AUTO_TEST_CASE(new_memory_is_poison) {
  FakeMachine machine(two_tiers());
  int value = 0;
  machine.peek(&value, device_ints(0), sizeof value);
  BOOST_TEST(value == -1);
  void* pinned = nullptr;
  BOOST_TEST(cudaHostAlloc(&pinned, 16, cudaHostAllocPortable) == cudaSuccess);
  BOOST_TEST(*static_cast<int*>(pinned) == -1);
}

// A kernel that reads what it may not: the device is lost, the other one is not.
void check_lost(FakeMachine& machine, const int* bad, const std::string& report) {
  int* const a = device_ints(0);
  int* const other = device_ints(1);
  const cudaStream_t stream = new_stream(0), other_stream = new_stream(1);
  cudaSetDevice(0);
  BOOST_TEST(add(bad, a, 1, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  BOOST_TEST(any_says(machine.reports(), report));
  void* p = nullptr;
  BOOST_TEST(cudaMalloc(&p, 16) == cudaErrorIllegalAddress);
  BOOST_TEST(cudaMemsetAsync(a, 0, kBytes, stream) == cudaErrorIllegalAddress);
  BOOST_TEST(add(a, a, 1, stream) == cudaErrorIllegalAddress);
  BOOST_TEST(cudaFree(a) == cudaErrorIllegalAddress);
  BOOST_TEST(cudaGetLastError() == cudaErrorIllegalAddress);
  BOOST_TEST(cudaGetLastError() == cudaErrorIllegalAddress);  // it stays
  BOOST_TEST(cudaSetDevice(1) == cudaSuccess);
  BOOST_TEST(cudaMemsetAsync(other, 0, kBytes, other_stream) == cudaSuccess);
  BOOST_TEST(add(other, other, 1, other_stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(other_stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
}

BOOST_AUTO_TEST_CASE(use_after_free_is_caught) {
  FakeMachine machine(two_tiers());
  int* const freed = device_ints(0);
  BOOST_TEST(cudaFree(freed) == cudaSuccess);
  check_lost(machine, freed, "read of 0x");
  BOOST_TEST(any_says(machine.reports(), "byte 0 of the freed allocation 1 of device 0"));
}

BOOST_AUTO_TEST_CASE(memory_of_another_device_is_caught) {
  FakeMachine machine(two_tiers());
  check_lost(machine, device_ints(1), "of allocation 1 of device 1");
}

BOOST_AUTO_TEST_CASE(a_host_that_reads_device_memory_dies) {
  for (const Order order : {Order::kEager, Order::kLazy, Order::kShuffled}) {
    FakeMachine machine(two_tiers(1, order));
    const int* const a = device_ints(0);
    int* const b = device_ints(0);
    const cudaStream_t stream = new_stream(0);
    BOOST_TEST(cudaMemsetAsync(b, 0, kBytes, stream) == cudaSuccess);
    BOOST_TEST(add(b, b, 1, stream) == cudaSuccess);
    BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
    const pid_t child = fork();
    if (child == 0) {
      close(STDERR_FILENO);  // what a sanitizer says of it
      _exit(*const_cast<const volatile int*>(a) == 0 ? 0 : 0);
    }
    int status = 0;
    BOOST_TEST(waitpid(child, &status, 0) == child);
    BOOST_TEST(!(WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
}

BOOST_AUTO_TEST_CASE(an_access_behind_an_allocation_is_caught) {
  FakeMachine machine(two_tiers());
  check_lost(machine, device_ints(0) + 32, "0 bytes behind allocation 1 of device 0");
}

BOOST_AUTO_TEST_CASE(host_memory_in_a_kernels_arguments_is_caught) {
  FakeMachine machine(two_tiers());
  std::vector<int> host(kCount, 1);
  check_lost(machine, host.data(), "byte 0 of argument 0 points to the host");
}

BOOST_AUTO_TEST_CASE(pinned_host_memory_is_a_kernels_too_until_it_is_freed) {
  FakeMachine machine(two_tiers());
  int* const in = pinned_ints(4);
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  BOOST_TEST(add(in, a, 1, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  int value = 0;
  machine.peek(&value, a, sizeof value);
  BOOST_TEST(value == 5);
  BOOST_TEST(cudaFreeHost(in) == cudaSuccess);
  check_lost(machine, in, "of the freed allocation 1 of pinned host memory");
}

BOOST_AUTO_TEST_CASE(memory_freed_under_a_pending_operation_loses_the_device) {
  FakeMachine machine(two_tiers(1, Order::kLazy));
  int* const in = pinned_ints(4);
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  BOOST_TEST(cudaMemcpyAsync(a, in, kBytes, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  BOOST_TEST(machine.has_pending_work(0));
  BOOST_TEST(cudaFree(a) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  BOOST_TEST(any_says(machine.reports(), "copy of memory that was freed meanwhile"));
}

BOOST_AUTO_TEST_CASE(wrong_copies_are_refused_with_a_report) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  int* const in = pinned_ints(0);
  const cudaStream_t stream = new_stream(0);
  BOOST_TEST(cudaMemcpyAsync(a, in, kBytes, cudaMemcpyDeviceToHost, stream) ==
             cudaErrorInvalidValue);
  BOOST_TEST(any_says(machine.reports(), "with the wrong direction"));
  BOOST_TEST(cudaMemcpyAsync(a + 1, in, kBytes, cudaMemcpyHostToDevice, stream) ==
             cudaErrorInvalidValue);
  BOOST_TEST(any_says(machine.reports(), "byte 4 of allocation 1 of device 0 (1024 bytes)"));
  BOOST_TEST(cudaMemsetAsync(a, 0, kBytes + 1, stream) == cudaErrorInvalidValue);
  BOOST_TEST(cudaMemcpyAsync(a + 1, in, 0, cudaMemcpyHostToDevice, stream) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(objects_of_the_wrong_device_are_refused) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  const cudaEvent_t event = new_event(1);
  BOOST_TEST(add(a, a, 1, stream) == cudaErrorInvalidResourceHandle);  // device 1 is current
  BOOST_TEST(cudaEventRecord(event, stream) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaMemsetAsync(a, 0, kBytes, stream) == cudaSuccess);  // allowed from anywhere
  BOOST_TEST(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
  BOOST_TEST(machine.reports().size() == 2);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(destroyed_streams_and_events_are_known) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  const cudaEvent_t event = new_event(0);
  BOOST_TEST(cudaMemsetAsync(a, 1, kBytes, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamDestroy(stream) == cudaSuccess);  // its work goes on
  BOOST_TEST(cudaDeviceSynchronize() == cudaSuccess);
  int value = 0;
  machine.peek(&value, a, sizeof value);
  BOOST_TEST(value == 0x01010101);
  BOOST_TEST(cudaEventDestroy(event) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaEventQuery(event) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(machine.reports().size() == 2);
}

BOOST_AUTO_TEST_CASE(launches_that_a_gpu_does_not_take_have_its_error) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  const auto launch = [&](unsigned n_blocks, size_t shared_bytes) {
    return cuda::launch(add_kernel, dim3(n_blocks), 64, shared_bytes, stream, a, a, 1, kCount);
  };
  BOOST_TEST(launch(0, 0) == cudaErrorInvalidConfiguration);
  BOOST_TEST(launch(1, size_t{200} << 10) == cudaErrorInvalidValue);
  BOOST_TEST(cudaMemsetAsync(a, 0, kBytes, stream) == cudaSuccess);
  BOOST_TEST(launch(1, size_t{90} << 10) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(the_nth_call_fails_as_it_is_told) {
  FakeMachine machine(two_tiers());
  void* p = nullptr;
  machine.fail_call("cudaMalloc", 2, cudaErrorMemoryAllocation);
  BOOST_TEST(cudaMalloc(&p, 16) == cudaSuccess);
  BOOST_TEST(cudaMalloc(&p, 16) == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaMalloc(&p, 16) == cudaSuccess);
  machine.fail_call("", 3, cudaErrorNotSupported);
  BOOST_TEST(cudaMalloc(&p, 16) == cudaSuccess);
  BOOST_TEST(cudaFree(p) == cudaSuccess);
  BOOST_TEST(cudaDeviceSynchronize() == cudaErrorNotSupported);
  BOOST_TEST(cudaDeviceSynchronize() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(an_injected_sticky_error_loses_the_device) {
  FakeMachine machine(two_tiers());
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  machine.fail_call("cudaLaunchKernel", 1, cudaErrorLaunchFailure);
  BOOST_TEST(add(a, a, 1, stream) == cudaErrorLaunchFailure);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  BOOST_TEST(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
}

BOOST_AUTO_TEST_CASE(an_operation_that_fails_shows_in_a_later_call) {
  FakeMachine machine(two_tiers(1, Order::kLazy));
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0), other = new_stream(1);
  const cudaEvent_t event = new_event(0);
  cudaSetDevice(0);
  machine.fail_operation(0, 2, cudaErrorECCUncorrectable);
  BOOST_TEST(cudaMemsetAsync(a, 0, kBytes, stream) == cudaSuccess);
  BOOST_TEST(add(a, a, 1, stream) == cudaSuccess);
  BOOST_TEST(cudaEventRecord(event, stream) == cudaSuccess);
  BOOST_TEST(cudaEventSynchronize(event) == cudaErrorECCUncorrectable);
  BOOST_TEST(cudaEventQuery(event) == cudaErrorECCUncorrectable);
  BOOST_TEST(cudaSetDevice(1) == cudaSuccess);
  BOOST_TEST(cudaStreamWaitEvent(other, event, 0) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(other) == cudaSuccess);  // never hangs
}

BOOST_AUTO_TEST_CASE(host_functions_run_in_their_streams_order_and_may_not_call_the_runtime) {
  FakeMachine machine(two_tiers(1, Order::kLazy));
  struct Seen {
    const int* out;
    int value;
    cudaError_t call;
  };
  int* const out = pinned_ints(0);
  Seen seen{out, -1, cudaSuccess};
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  BOOST_TEST(cudaMemsetAsync(a, 1, kBytes, stream) == cudaSuccess);
  BOOST_TEST(cudaMemcpyAsync(out, a, kBytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  const auto look = [](void* p) {
    auto* s = static_cast<Seen*>(p);
    s->value = *s->out;
    s->call = cudaDeviceSynchronize();
  };
  BOOST_TEST(cudaLaunchHostFunc(stream, look, &seen) == cudaSuccess);
  BOOST_TEST(seen.value == -1);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  BOOST_TEST(seen.value == 0x01010101);
  BOOST_TEST(seen.call == cudaErrorNotPermitted);
  BOOST_TEST(any_says(machine.reports(), "cudaDeviceSynchronize is called in a host function"));
}

BOOST_AUTO_TEST_CASE(events_with_timing_measure_what_lies_between_them) {
  const FakeMachine machine(two_tiers(1, Order::kLazy));
  int* const a = device_ints(0);
  const cudaStream_t stream = new_stream(0);
  cudaEvent_t begin = nullptr, end = nullptr;
  BOOST_TEST(cudaEventCreate(&begin) == cudaSuccess);
  BOOST_TEST(cudaEventCreate(&end) == cudaSuccess);
  float ms = 0;
  BOOST_TEST(cudaEventElapsedTime(&ms, begin, end) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaEventRecord(begin, stream) == cudaSuccess);
  BOOST_TEST(cudaMemsetAsync(a, 1, kBytes, stream) == cudaSuccess);
  BOOST_TEST(cudaEventRecord(end, stream) == cudaSuccess);
  BOOST_TEST(cudaEventElapsedTime(&ms, begin, end) == cudaErrorNotReady);
  BOOST_TEST(cudaEventSynchronize(end) == cudaSuccess);
  BOOST_TEST(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
  BOOST_TEST(ms > 0);
  BOOST_TEST(cudaEventElapsedTime(&ms, begin, new_event(0)) == cudaErrorInvalidResourceHandle);
}

BOOST_AUTO_TEST_CASE(pointers_say_where_they_lead) {
  const FakeMachine machine(two_tiers());
  cudaPointerAttributes attributes = {};
  BOOST_TEST(cudaPointerGetAttributes(&attributes, device_ints(1)) == cudaSuccess);
  BOOST_TEST(attributes.type == cudaMemoryTypeDevice);
  BOOST_TEST(attributes.device == 1);
  BOOST_TEST(cudaPointerGetAttributes(&attributes, pinned_ints(0)) == cudaSuccess);
  BOOST_TEST(attributes.type == cudaMemoryTypeHost);
  BOOST_TEST(cudaPointerGetAttributes(&attributes, &attributes) == cudaSuccess);
  BOOST_TEST(attributes.type == cudaMemoryTypeUnregistered);
}

BOOST_AUTO_TEST_CASE(a_write_beside_an_allocation_is_reported_when_it_is_freed) {
  FakeMachine machine(two_tiers());
  void *in = nullptr, *out = nullptr;
  BOOST_TEST(cudaMalloc(&in, kBytes) == cudaSuccess);
  BOOST_TEST(cudaMalloc(&out, kBytes - 4) == cudaSuccess);
  BOOST_TEST(add(static_cast<int*>(in), static_cast<int*>(out), 1, new_stream(0)) == cudaSuccess);
  BOOST_TEST(cudaDeviceSynchronize() == cudaSuccess);
  BOOST_TEST(cudaFree(in) == cudaSuccess);
  BOOST_TEST(machine.reports().empty());
  BOOST_TEST(cudaFree(out) == cudaSuccess);
  BOOST_TEST(any_says(machine.reports(), "written beside what is freed"));
}

BOOST_AUTO_TEST_CASE(host_threads_use_devices_of_their_own) {
  FakeMachine machine(two_tiers(7));
  struct Lane {
    int *in, *out, *a;
    cudaStream_t stream;
  };
  std::vector<Lane> lanes;
  for (int device = 0; device < 2; ++device) {
    lanes.push_back(
        {pinned_ints(device), pinned_ints(-2), device_ints(device), new_stream(device)});
  }
  std::atomic<int> n_right = 0;
  const auto work = [&](int device) {
    const Lane& lane = lanes[static_cast<size_t>(device)];
    if (cudaSetDevice(device) != cudaSuccess) return;
    for (int i = 0; i < 50; ++i) {
      cudaMemcpyAsync(lane.a, lane.in, kBytes, cudaMemcpyHostToDevice, lane.stream);
      add(lane.a, lane.a, i, lane.stream);
      cudaMemcpyAsync(lane.out, lane.a, kBytes, cudaMemcpyDeviceToHost, lane.stream);
      if (cudaStreamSynchronize(lane.stream) == cudaSuccess && all_are(lane.out, device + i)) {
        ++n_right;
      }
    }
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  BOOST_TEST(n_right == 100);
  BOOST_TEST(machine.reports().empty());
  BOOST_TEST(machine.calls("cudaStreamSynchronize") == 100);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
