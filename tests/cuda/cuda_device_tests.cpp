// Proves the CUDA device on emulated machines, under several orders of whatever the API leaves
// open: memory, copies in stream order and beside it, checksums, peers, failures and lost devices.
#include <algorithm>
#include <cstring>
#include <random>

#include "cuda/backend_testing.h"
#include "device/cuda/inventory.h"
#include "device/memory_check.h"
#include "device/peer_link.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;
using cuda_emu::MachineSpec;
using cuda_emu::Order;
using cuda_emu::Peer;

// Runs the check on a machine for each order, and some seeds of the shuffled one.
template <typename Check>
void on_machines(MachineSpec spec, const Check& check) {
  for (const Order order : {Order::kEager, Order::kLazy, Order::kShuffled}) {
    for (uint64_t seed = 1; seed <= (order == Order::kShuffled ? 6U : 1U); ++seed) {
      BOOST_TEST_CONTEXT("order " << static_cast<int>(order) << ", seed " << seed) {
        spec.order = order;
        spec.seed = seed;
        FakeMachine machine(spec);
        check(machine);
        check_clean(machine);
      }
    }
  }
}

std::vector<unsigned char> random_bytes(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<unsigned char> bytes(n);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

MachineSpec two_cards(Peer peer) {
  return {.devices = {cuda_emu::rtx_4090(), cuda_emu::a100()}, .peer = peer};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_device_tests)

BOOST_AUTO_TEST_CASE(memory_is_aligned_and_zeroed_and_too_much_is_refused) {
  on_machines({.devices = {cuda_emu::a100()}}, [](FakeMachine&) {
    const auto device = make_gpu();
    Buffer buffer = must_allocate(*device, 1000);
    BOOST_TEST(reinterpret_cast<uintptr_t>(buffer.data()) % 256 == 0U);
    BOOST_TEST((buffer.device() == DeviceId{DeviceId::Kind::kCuda, 0}));
    const auto bytes = download<unsigned char>(*device, buffer.data(), 1000);
    BOOST_TEST(std::ranges::count(bytes, 0) == 1000);
    BOOST_TEST(device->free_bytes() > 0U);
    const auto huge = device->allocate(size_t{1} << 40);
    BOOST_REQUIRE(!huge.has_value());
    BOOST_TEST((huge.error().kind == ErrorKind::kResourceExhausted));
    BOOST_TEST(huge.error().message.starts_with("cuda:0 has no room for 1048576 MiB more"));
    BOOST_TEST(device->sync().has_value());  // which is no failure of the device
  });
}

BOOST_AUTO_TEST_CASE(uploads_and_downloads_keep_their_order_whatever_their_size) {
  on_machines({.devices = {cuda_emu::a100()}}, [](FakeMachine& machine) {
    const auto device = make_gpu();
    constexpr size_t kBytes = (size_t{9} << 20) + 77;  // beyond both rings
    Buffer buffer = must_allocate(*device, kBytes);
    auto bytes = random_bytes(kBytes, 3);
    device->upload(bytes.data(), buffer.data(), kBytes);
    std::fill(bytes.begin(), bytes.end(), 0);  // the host's memory is free again
    for (unsigned char i = 0; i < 40; ++i) device->upload(&i, buffer.as<std::byte>() + 5, 1);
    auto wanted = random_bytes(kBytes, 3);
    wanted[5] = 39;
    BOOST_TEST((download<unsigned char>(*device, buffer.data(), kBytes) == wanted));
    BOOST_TEST(machine.counters().pageable_async_copies == 0U);
  });
}

BOOST_AUTO_TEST_CASE(copies_beside_the_ops_are_complete_when_they_return) {
  on_machines({.devices = {cuda_emu::a100()}}, [](FakeMachine&) {
    const auto device = make_gpu();
    Buffer buffer = must_allocate(*device, 5000);
    auto staging = device->allocate_staging(5000);
    BOOST_REQUIRE(staging.has_value());
    const auto bytes = random_bytes(5000, 4);
    std::memcpy(staging->data(), bytes.data(), bytes.size());
    auto* const from = staging->as<std::byte>();
    auto* const to = buffer.as<std::byte>();
    const CopyRun runs[] = {{from, to + 3, 1000}, {from + 1000, to + 2000, 7}, {from, to, 0}};
    BOOST_TEST(device->write(runs).has_value());
    std::vector<unsigned char> back(1010);
    const CopyRun home[] = {{to + 3, back.data(), 1000}, {to + 2000, back.data() + 1000, 7}};
    BOOST_TEST(device->read(home).has_value());
    BOOST_TEST(std::equal(bytes.begin(), bytes.begin() + 1007, back.begin()));
  });
}

BOOST_AUTO_TEST_CASE(the_checksum_is_that_of_the_hosts_memory) {
  on_machines({.devices = {cuda_emu::a100()}}, [](FakeMachine&) {
    const auto device = make_gpu();
    const auto bytes = random_bytes(40000, 5);
    Buffer buffer = must_allocate(*device, bytes.size());
    BOOST_TEST(device->write(bytes.data(), buffer.data(), bytes.size()).has_value());
    std::vector<MemoryRange> there;
    std::vector<MemoryRange> here;
    for (size_t at = 0; at < 30000; at += 41) {
      there.push_back({buffer.as<std::byte>() + at, at % 60});
      here.push_back({bytes.data() + at, at % 60});
    }
    const auto found = device->check(there, DType::kBF16);
    BOOST_REQUIRE(found.has_value());
    BOOST_TEST((*found == check_host_memory(here, DType::kBF16)));
    const auto nothing = device->check({}, DType::kF32);
    BOOST_REQUIRE(nothing.has_value());
    BOOST_TEST((*nothing == MemoryCheck{}));
  });
}

BOOST_AUTO_TEST_CASE(weights_keep_the_checkpoints_layout_in_the_devices_format) {
  FakeMachine machine({.devices = {cuda_emu::a100()}});
  {
    const auto device = make_gpu();
    const std::vector<float> first = {1.0F, -2.5F, 3.00390625F, 1e-3F};  // the third: a tie
    const std::vector<_Float16> second = {_Float16(0.5), _Float16(-65504.0)};
    const WeightPart parts[] = {{first.data(), DType::kF32, 2}, {second.data(), DType::kF16, 1}};
    auto packed = device->pack_weight(parts, 2, DType::kBF16);
    BOOST_REQUIRE_MESSAGE(packed.has_value(), message_of(packed));
    BOOST_TEST(packed->packed.out_dim == 3);
    BOOST_TEST((packed->packed.dtype == DType::kBF16));
    BOOST_TEST((download<uint16_t>(*device, packed->packed.data, 6) ==
                std::vector<uint16_t>{0x3F80, 0xC020, 0x4040, 0x3A83, 0x3F00, 0xC780}));
    const auto refused = device->pack_weight(parts, 2, DType::kF32);
    BOOST_REQUIRE(!refused.has_value());
    BOOST_TEST((refused.error().kind == ErrorKind::kUnsupported));
  }
  check_clean(machine);
}

BOOST_AUTO_TEST_CASE(cards_without_peer_access_are_linked_through_the_host) {
  on_machines(two_cards(Peer::kNone), [](FakeMachine& machine) {
    const auto from = make_gpu(0);
    const auto to = make_gpu(1);
    BOOST_TEST(!to->reaches(*from));
    BOOST_TEST(to->reaches(*to));
    auto link = PeerLink::open(*from, *to, LinkChoice::kAuto, {.chunk_bytes = 4096, .n_chunks = 3});
    BOOST_REQUIRE_MESSAGE(link.has_value(), message_of(link));
    BOOST_TEST(((*link)->path() == LinkPath::kStaged));
    const auto bytes = random_bytes(30000, 6);
    Buffer source = must_allocate(*from, bytes.size());
    Buffer target = must_allocate(*to, bytes.size());
    BOOST_TEST(from->write(bytes.data(), source.data(), bytes.size()).has_value());
    const CopyRun run{source.data(), target.data(), bytes.size()};
    const auto copied = (*link)->copy(std::span(&run, 1), true);
    BOOST_REQUIRE_MESSAGE(copied.has_value(), message_of(copied));
    BOOST_TEST((download<unsigned char>(*to, target.data(), bytes.size()) == bytes));
    BOOST_TEST(machine.counters().driver_staged_copies == 0U);
  });
}

BOOST_AUTO_TEST_CASE(peer_access_is_used_where_it_works_and_lies_are_found_out) {
  for (const Peer peer : {Peer::kYes, Peer::kLies}) {
    FakeMachine machine(two_cards(peer));
    {
      const auto from = make_gpu(0);
      const auto to = make_gpu(1);
      BOOST_TEST(to->reaches(*from));
      auto link =
          PeerLink::open(*from, *to, LinkChoice::kAuto, {.chunk_bytes = 4096, .n_chunks = 2});
      BOOST_REQUIRE_MESSAGE(link.has_value(), message_of(link));
      const auto expected = peer == Peer::kYes ? LinkPath::kPeer : LinkPath::kStaged;
      BOOST_TEST(((*link)->path() == expected));
      BOOST_TEST((*link)->note().empty() == (peer == Peer::kYes));
    }
    check_clean(machine);
  }
}

BOOST_AUTO_TEST_CASE(a_peer_copy_is_there_for_the_ops_when_it_returns) {
  on_machines(two_cards(Peer::kYes), [](FakeMachine&) {
    const auto from = make_gpu(0);
    const auto to = make_gpu(1);
    BOOST_REQUIRE(to->reaches(*from));
    const auto bytes = random_bytes(5000, 7);
    Buffer source = must_allocate(*from, bytes.size());
    Buffer target = must_allocate(*to, bytes.size());
    BOOST_TEST(from->write(bytes.data(), source.data(), bytes.size()).has_value());
    BOOST_TEST(to->copy_from(*from, source.data(), target.data(), bytes.size()).has_value());
    BOOST_TEST((download<unsigned char>(*to, target.data(), bytes.size()) == bytes));
  });
}

BOOST_AUTO_TEST_CASE(a_failed_call_comes_back_at_the_next_sync_with_its_text_and_once) {
  FakeMachine machine({.devices = {cuda_emu::a100()}});
  {
    const auto device = make_gpu();
    Buffer buffer = must_allocate(*device, 4096);
    const Matrix m{buffer.data(), DType::kBF16, 8, 16, 16};
    machine.fail_call("cudaLaunchKernel", 1, cudaErrorInvalidConfiguration);
    device->ops().add_rows(m, m);
    const Status failed = device->sync();
    BOOST_REQUIRE(!failed.has_value());
    BOOST_TEST((failed.error().kind == ErrorKind::kInternal));
    BOOST_TEST(failed.error().message.starts_with("cuda:0: cuda::add_rows: "));
    BOOST_TEST(failed.error().message.find("cudaErrorInvalidConfiguration") != std::string::npos);
    BOOST_TEST(device->sync().has_value());
  }
  check_clean(machine);
}

BOOST_AUTO_TEST_CASE(a_fault_of_a_kernel_loses_the_device_for_good_and_no_other) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    auto spec = two_cards(Peer::kNone);
    spec.seed = seed;
    FakeMachine machine(spec);
    {
      const auto lost = make_gpu(0);
      const auto sound = make_gpu(1);
      Buffer buffer = must_allocate(*lost, 4096);
      const Matrix m{buffer.data(), DType::kBF16, 8, 16, 16};
      BOOST_TEST(lost->sync().has_value());
      machine.fail_operation(0, 1, cudaErrorIllegalAddress);
      lost->ops().add_rows(m, m);
      for (int i = 0; i < 2; ++i) {
        const Status failed = lost->sync();
        BOOST_REQUIRE(!failed.has_value());
        BOOST_TEST((failed.error().kind == ErrorKind::kUnavailable));
        BOOST_TEST(failed.error().code == "device_lost");
        BOOST_TEST(failed.error().message.find("cudaErrorIllegalAddress") != std::string::npos);
      }
      lost->ops().add_rows(m, m);  // nothing happens
      unsigned char byte = 0;
      BOOST_TEST((lost->read(buffer.data(), &byte, 1).error().code == "device_lost"));
      BOOST_TEST((lost->check(buffer.data(), 8, DType::kU8).error().code == "device_lost"));
      BOOST_TEST((lost->allocate(64).error().code == "device_lost"));
      Buffer other = must_allocate(*sound, 64);
      BOOST_TEST(sound->sync().has_value());
    }
    for (const std::string& leak : machine.leaks()) BOOST_ERROR("leaked: " + leak);
  }
}

BOOST_AUTO_TEST_CASE(an_inventory_says_what_there_is_or_what_to_do) {
  const auto error_of = [](const MachineSpec& spec) {
    FakeMachine machine(spec);
    const auto listed = cuda::list_devices();
    BOOST_REQUIRE(!listed.has_value());
    BOOST_TEST(listed.error().message.find('\n') == std::string::npos);
    return listed.error().message;
  };
  BOOST_TEST(error_of({.devices = {}}).starts_with("no NVIDIA device: the driver lists none"));
  BOOST_TEST(error_of({.devices = {}, .driver_version = 0})
                 .starts_with("no NVIDIA device: the driver is not installed"));
  BOOST_TEST(error_of({.devices = {cuda_emu::a100()}, .driver_version = 11080})
                 .starts_with("driver too old: have one for CUDA 11.8, need CUDA 13.0"));
  FakeMachine machine(two_cards(Peer::kNone));
  const auto listed = cuda::list_devices();
  BOOST_REQUIRE_MESSAGE(listed.has_value(), message_of(listed));
  BOOST_REQUIRE(listed->size() == 2U);
  const DeviceInfo& card = listed->front();
  BOOST_TEST((card.id == DeviceId{DeviceId::Kind::kCuda, 0}));
  BOOST_TEST(card.name.find("4090") != std::string::npos);
  BOOST_TEST(card.uuid.starts_with("GPU-"));
  BOOST_TEST(card.uuid.size() == 40U);
  BOOST_TEST(card.pci == "0000:41:00.0");
  BOOST_TEST(card.memory_bytes == size_t{256} << 20);
  BOOST_TEST(card.gflops > 0);
  BOOST_TEST(card.bandwidth_gbs > 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
