// Proves peer access of the fake CUDA runtime: without it, with it, and on devices that lie.
#include "cuda/fake_runtime_testing.h"

namespace hs::test {
namespace {

// A copy from device 0 to 1 and a kernel there, ordered by events and streams as they should be.
bool peer_copy_is_right(FakeMachine&) {
  int* const in = pinned_ints(7);
  int* const out = pinned_ints(0);
  int* const from = device_ints(0);
  int* const to = device_ints(1);
  const cudaStream_t source = new_stream(0), target = new_stream(1);
  const cudaEvent_t there = new_event(0);
  BOOST_TEST(cudaMemcpyAsync(from, in, kBytes, cudaMemcpyHostToDevice, source) == cudaSuccess);
  BOOST_TEST(cudaMemcpyPeerAsync(to, 1, from, 0, kBytes, source) == cudaSuccess);
  BOOST_TEST(cudaEventRecord(there, source) == cudaSuccess);
  BOOST_TEST(cudaStreamWaitEvent(target, there, 0) == cudaSuccess);
  BOOST_TEST(cudaSetDevice(1) == cudaSuccess);
  BOOST_TEST(add(to, to, 1, target) == cudaSuccess);
  BOOST_TEST(cudaMemcpyAsync(out, to, kBytes, cudaMemcpyDeviceToHost, target) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(target) == cudaSuccess);
  return all_are(out, 8);
}

void make_peers(FakeMachine& machine, Peer peer) {
  machine.set_peer(0, 1, peer);
  machine.set_peer(1, 0, peer);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fake_peer_tests)

BOOST_AUTO_TEST_CASE(peers_say_whether_they_are) {
  FakeMachine machine(two_tiers());
  int can = 1;
  BOOST_TEST(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
  BOOST_TEST(can == 0);
  BOOST_TEST(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported);
  machine.set_peer(0, 1, Peer::kYes);  // in one direction
  BOOST_TEST(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
  BOOST_TEST(can == 1);
  BOOST_TEST(cudaDeviceCanAccessPeer(&can, 1, 0) == cudaSuccess);
  BOOST_TEST(can == 0);
  BOOST_TEST(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  BOOST_TEST(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  BOOST_TEST(cudaGetLastError() == cudaErrorPeerAccessAlreadyEnabled);
  BOOST_TEST(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
  BOOST_TEST(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
}

BOOST_AUTO_TEST_CASE(a_peer_copy_is_right_under_every_seed) {
  BOOST_TEST(seeds_that_show([](FakeMachine& machine) {
               make_peers(machine, Peer::kYes);
               return peer_copy_is_right(machine) && machine.counters().driver_staged_copies == 0;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_copy_that_the_driver_stages_may_come_too_late_and_is_counted) {
  const uint64_t shown = seeds_that_show([](FakeMachine& machine) {
    const bool right = peer_copy_is_right(machine);
    BOOST_TEST(machine.counters().driver_staged_copies == 1);
    return right;
  });
  BOOST_TEST(shown > kSeeds / 4);
}

BOOST_AUTO_TEST_CASE(a_staged_copy_is_there_once_the_host_has_waited_for_the_device) {
  FakeMachine machine(two_tiers(1, Order::kLazy));
  int* const from = device_ints(0);
  int* const to = device_ints(1);
  const cudaStream_t stream = new_stream(0);
  BOOST_TEST(cudaMemsetAsync(from, 1, kBytes, stream) == cudaSuccess);
  BOOST_TEST(cudaMemcpyPeerAsync(to, 1, from, 0, kBytes, stream) == cudaSuccess);
  BOOST_TEST(cudaDeviceSynchronize() == cudaSuccess);
  int value = 0;
  machine.peek(&value, to, sizeof value);
  BOOST_TEST(value == 0x01010101);
}

BOOST_AUTO_TEST_CASE(peers_that_lie_bring_zeros_or_nothing) {
  bool zeros = false, nothing = false;
  const uint64_t shown = seeds_that_show([&](FakeMachine& machine) {
    make_peers(machine, Peer::kLies);
    int* const from = device_ints(0);
    int* const to = device_ints(1);
    const cudaStream_t stream = new_stream(0);
    BOOST_TEST(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
    BOOST_TEST(cudaMemsetAsync(from, 1, kBytes, stream) == cudaSuccess);
    BOOST_TEST(cudaMemcpyPeerAsync(to, 1, from, 0, kBytes, stream) == cudaSuccess);
    BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
    int value = 0;
    machine.peek(&value, to, sizeof value);
    zeros |= value == 0;
    nothing |= value == -1;
    return value == 0x01010101;
  });
  BOOST_TEST(shown == kSeeds);
  BOOST_TEST(zeros);
  BOOST_TEST(nothing);
}

BOOST_AUTO_TEST_CASE(peers_that_lie_under_load_are_right_alone) {
  const auto right = [](bool load) {
    return [load](FakeMachine& machine) {
      make_peers(machine, Peer::kLiesUnderLoad);
      int* const from = device_ints(0);
      int* const to = device_ints(1);
      const cudaStream_t stream = new_stream(0), busy = new_stream(1);
      BOOST_TEST(cudaSetDevice(0) == cudaSuccess);
      BOOST_TEST(cudaMemset(from, 1, kBytes) == cudaSuccess);
      BOOST_TEST(cudaDeviceSynchronize() == cudaSuccess);
      for (int i = 0; load && i < 8; ++i) cudaMemsetAsync(to + 8 * i, 0, 4, busy);
      BOOST_TEST(cudaMemcpyPeerAsync(to, 1, from, 0, kBytes, stream) == cudaSuccess);
      BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
      int value = 0;
      machine.peek(&value, to + 1, sizeof value);
      return value == 0x01010101;
    };
  };
  BOOST_TEST(seeds_that_show(right(false)) == 0);
  BOOST_TEST(seeds_that_show(right(true)) > 0);
  BOOST_TEST(seeds_that_show(right(true), Order::kLazy) == kSeeds);
}

BOOST_AUTO_TEST_CASE(a_kernel_reaches_a_peers_memory_only_with_access) {
  FakeMachine machine(two_tiers());
  make_peers(machine, Peer::kYes);
  int* const there = device_ints(1);
  int* const here = device_ints(0);
  const cudaStream_t stream = new_stream(0), other = new_stream(1);
  BOOST_TEST(cudaMemsetAsync(there, 1, kBytes, other) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(other) == cudaSuccess);
  BOOST_TEST(cudaSetDevice(0) == cudaSuccess);
  BOOST_TEST(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  BOOST_TEST(add(there, here, 1, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  int value = 0;
  machine.peek(&value, here, sizeof value);
  BOOST_TEST(value == 0x01010102);
  BOOST_TEST(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
  BOOST_TEST(add(there, here, 1, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  BOOST_TEST(any_says(machine.reports(), "byte 0 of allocation 1 of device 1"));
}

BOOST_AUTO_TEST_CASE(peer_copies_name_the_devices_where_the_memory_is) {
  FakeMachine machine(two_tiers());
  int* const from = device_ints(0);
  int* const to = device_ints(1);
  const cudaStream_t stream = new_stream(0);
  BOOST_TEST(cudaMemcpyPeerAsync(to, 0, from, 1, kBytes, stream) == cudaErrorInvalidValue);
  BOOST_TEST(any_says(machine.reports(), "peer copy from device 1 to 0"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
