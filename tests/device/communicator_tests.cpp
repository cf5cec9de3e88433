// Proves that a group's sums and copies are exact and the same on every rank however unevenly its
// threads arrive, and that a rank that gives up leaves nobody waiting.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "device/communicator.h"
#include "device/cpu/cpu_device.h"
#include "link_devices.h"

namespace hs::test {
namespace {

constexpr int64_t kElementsMax = 600;

struct Group {
  explicit Group(int32_t n) {
    std::vector<Device*> all;
    for (int32_t i = 0; i < n; ++i) {
      auto device = make_cpu_device({.index = i, .threads = 1, .cores = {}});
      BOOST_REQUIRE(device);
      all.push_back(device->get());
      devices.push_back(std::move(*device));
    }
    auto made = Communicator::create(all, kElementsMax);
    BOOST_REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    communicator = std::move(*made);
  }
  // Each rank on a thread of its own; what they return.
  std::vector<Status> run(const std::function<Status(int32_t rank)>& work) {
    std::vector<Status> results(devices.size());
    std::vector<std::jthread> threads;
    for (int32_t rank = 0; rank < communicator->size(); ++rank) {
      threads.emplace_back([&, rank] { results[static_cast<size_t>(rank)] = work(rank); });
    }
    threads.clear();
    return results;
  }

  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Communicator> communicator;
};

Matrix matrix(std::vector<float>& values, int64_t rows, int64_t cols) {
  values.resize(static_cast<size_t>(rows * cols));
  return {values.data(), DType::kF32, rows, cols, cols};
}

// Of element i on `rank` in `round`: sums of these depend on their order.
float value_of(int32_t rank, int32_t round, int64_t i) {
  const auto mixed =
      static_cast<uint32_t>(rank * 7919 + round * 104729 + i * 1299709) * 2654435761U;
  return static_cast<float>(mixed) * 1e-3F - 2e6F;
}

void dawdle(std::mt19937& random) {
  const auto n = random() % 8 == 0 ? random() % 20000 : random() % 50;
  for (uint32_t i = 0; i < n; ++i) {
    if (i % 1000 == 999) std::this_thread::yield();
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(communicator_tests)

BOOST_AUTO_TEST_CASE(every_rank_gets_the_same_sum_however_late_another_is) {
  constexpr int32_t kRounds = 300;
  for (const int32_t n : {1, 2, 3, 5}) {
    Group group(n);
    std::atomic<int> n_wrong = 0;
    const auto results = group.run([&](int32_t rank) -> Status {
      std::mt19937 random(static_cast<uint32_t>(rank));
      std::vector<float> memory;
      for (int32_t round = 0; round < kRounds; ++round) {
        const int64_t rows = 1 + round % 6;
        const int64_t cols = 1 + round * 13 % 100;
        const Matrix y = matrix(memory, rows, cols);
        dawdle(random);
        if (round % 5 == 4) {  // now and then a broadcast between sums
          for (size_t i = 0; i < memory.size(); ++i) {
            memory[i] = rank == 0 ? value_of(9, round, static_cast<int64_t>(i)) : -1.0F;
          }
          if (Status told = group.communicator->broadcast(rank, y); !told) return told;
          for (size_t i = 0; i < memory.size(); ++i) {
            n_wrong += memory[i] == value_of(9, round, static_cast<int64_t>(i)) ? 0 : 1;
          }
          continue;
        }
        const Matrix part = group.communicator->part(rank, rows, cols);
        for (size_t i = 0; i < memory.size(); ++i) {
          memory[i] = static_cast<float>(i);
          static_cast<float*>(part.data)[i] = value_of(rank, round, static_cast<int64_t>(i));
        }
        dawdle(random);
        if (Status done = group.communicator->all_reduce(rank, y); !done) return done;
        for (size_t i = 0; i < memory.size(); ++i) {
          float sum = value_of(0, round, static_cast<int64_t>(i));
          for (int32_t r = 1; r < n; ++r) sum += value_of(r, round, static_cast<int64_t>(i));
          n_wrong += memory[i] == static_cast<float>(i) + sum ? 0 : 1;
        }
      }
      return {};
    });
    for (const Status& status : results) BOOST_TEST(status.has_value());
    BOOST_TEST(n_wrong == 0, n << " ranks");
  }
}

BOOST_AUTO_TEST_CASE(bytes_are_those_read_from_other_devices) {
  Group group(3);
  const auto results = group.run([&](int32_t rank) -> Status {
    std::vector<float> memory;
    const Matrix y = matrix(memory, 4, 10);
    if (Status told = group.communicator->broadcast(rank, y); !told) return told;
    static_cast<void>(group.communicator->part(rank, 4, 10));
    return group.communicator->all_reduce(rank, y);
  });
  for (const Status& status : results) BOOST_TEST(status.has_value());
  BOOST_TEST(group.communicator->bytes_received(0) == 2 * 160);
  BOOST_TEST(group.communicator->bytes_received(1) == 160 + 2 * 160);
  BOOST_TEST(group.communicator->bytes_received(2) == 160 + 2 * 160);
}

// The rank that gives up does so before, while or after the others wait, at a different call each
// round.
BOOST_AUTO_TEST_CASE(a_rank_that_gives_up_ends_the_others_calls_and_the_group_works_again) {
  for (const int32_t n : {2, 4}) {
    Group group(n);
    for (int32_t round = 0; round < 60; ++round) {
      const int32_t quitter = round % n;
      const int32_t last_call = round % 7;
      const auto results = group.run([&](int32_t rank) -> Status {
        std::mt19937 random(static_cast<uint32_t>(round * n + rank));
        std::vector<float> memory;
        const Matrix y = matrix(memory, 3, 3);
        for (int32_t call = 0;; ++call) {
          dawdle(random);
          if (rank == quitter && call == last_call) {
            group.communicator->abort();
            return fail(ErrorKind::kInternal, "gave up");
          }
          if (Status done = group.communicator->all_reduce(rank, y); !done) return done;
        }
      });
      for (int32_t rank = 0; rank < n; ++rank) {
        const Status& status = results[static_cast<size_t>(rank)];
        BOOST_REQUIRE(!status);
        BOOST_TEST(is_group_abort(status) == (rank != quitter));
      }
      group.communicator->reset();
      for (const Status& met : group.run([&](int32_t) { return group.communicator->meet(); })) {
        BOOST_TEST(met.has_value());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(calls_after_an_abort_fail_until_the_reset) {
  Group group(2);
  group.communicator->abort();
  for (const Status& met : group.run([&](int32_t) { return group.communicator->meet(); })) {
    BOOST_TEST(is_group_abort(met));
  }
  group.communicator->reset();
  for (const Status& met : group.run([&](int32_t) { return group.communicator->meet(); })) {
    BOOST_TEST(met.has_value());
  }
  BOOST_TEST(!is_group_abort(Status()));
  BOOST_TEST(!is_group_abort(fail(ErrorKind::kUnavailable, "lost", "device_lost")));
}

BOOST_AUTO_TEST_CASE(devices_with_other_activations_share_nothing) {
  struct HalfDevice final : FarDevice {
    using FarDevice::FarDevice;
    DType activation_dtype() const override { return DType::kBF16; }
  };
  FarDevice first(0);
  HalfDevice second(1);
  const auto refused = Communicator::create({&first, &second}, 10);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == ErrorKind::kUnsupported));
  BOOST_TEST(refused.error().message.find("cuda:0 and cuda:1 cannot share a model") == 0);
}

BOOST_AUTO_TEST_CASE(memory_is_read_directly_only_where_a_pattern_came_through) {
  for (const bool has_access : {false, true}) {
    for (const bool lies : {false, true}) {
      FarDevice first(0);
      FarDevice second(1);
      first.has_peer_access = second.has_peer_access = has_access;
      if (lies) second.spoilt_peer_copies.times = 1;
      const auto group = Communicator::create({&first, &second}, 10);
      BOOST_REQUIRE(group);
      BOOST_TEST((*group)->is_direct() == (has_access && !lies));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
