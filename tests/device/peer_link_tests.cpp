// Proves that a link uses the shortest way that works, finds damage at start and in service, and
// repeats a damaged copy by another way.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/link_devices.h"
#include "device/peer_link.h"

namespace hs {
namespace {

using test::FarDevice;

constexpr PeerLink::Options kSmall{.chunk_bytes = 4096, .n_chunks = 3};

// Bytes on one device and room for them on another, cut into runs of random sizes that stand in
// another order there than here.
struct Copies {
  Copies(Device& from_device, Device& to_device, size_t bytes, size_t run_bytes_max)
      : from(from_device), to(to_device), sent(bytes) {
    std::mt19937 random(7);
    for (auto& byte : sent) byte = static_cast<unsigned char>(random());
    source = *from.allocate(bytes);
    target = *to.allocate(bytes);
    BOOST_REQUIRE(from.write(sent.data(), source.data(), bytes).has_value());
    for (size_t done = 0; done < bytes;) {
      const size_t n = std::min(bytes - done, 1 + random() % run_bytes_max);
      runs.push_back(
          {source.as<std::byte>() + done, target.as<std::byte>() + (bytes - done - n), n});
      done += n;
    }
  }
  // Whether every byte stands where its run says.
  bool arrived() {
    std::vector<unsigned char> got(sent.size());
    BOOST_REQUIRE(to.read(target.data(), got.data(), got.size()).has_value());
    size_t done = 0;
    for (const CopyRun& run : runs) {
      const auto* there = got.data() + (sent.size() - done - run.bytes);
      if (!std::equal(there, there + run.bytes, sent.data() + done)) return false;
      done += run.bytes;
    }
    return true;
  }

  Device& from;
  Device& to;
  std::vector<unsigned char> sent;
  Buffer source, target;
  std::vector<CopyRun> runs;
};

struct FarPair {
  explicit FarPair(bool has_peer_access) { to.has_peer_access = has_peer_access; }
  std::unique_ptr<PeerLink> open(LinkChoice wanted = LinkChoice::kAuto) {
    auto link = PeerLink::open(from, to, wanted, kSmall);
    BOOST_REQUIRE_MESSAGE(link, (link ? "" : link.error().message));
    return std::move(*link);
  }
  FarDevice from{0};
  FarDevice to{1};
};

std::unique_ptr<Device> cpu(int index) {
  return std::move(*make_cpu_device({.index = index, .threads = 1}));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(peer_link_tests)

BOOST_AUTO_TEST_CASE(host_devices_copy_directly) {
  const auto from = cpu(0), to = cpu(1);
  const auto link = PeerLink::open(*from, *to, LinkChoice::kAuto, kSmall);
  BOOST_REQUIRE(link);
  BOOST_TEST(to_string((*link)->path()) == "peer");
  BOOST_TEST((*link)->note().empty());
  Copies copies(*from, *to, 100'001, 3000);
  const auto done = (*link)->copy(copies.runs, true);
  BOOST_REQUIRE(done);
  BOOST_TEST(done->bytes == 100'001U);
  BOOST_TEST(to_string(done->path) == "peer");
  BOOST_TEST(copies.arrived());
}

BOOST_AUTO_TEST_CASE(one_device_copies_inside_its_memory) {
  const auto device = cpu(0);
  for (const LinkChoice wanted : {LinkChoice::kAuto, LinkChoice::kPeer, LinkChoice::kStaged}) {
    const auto link = PeerLink::open(*device, *device, wanted, kSmall);
    BOOST_REQUIRE(link);
    Copies copies(*device, *device, 5000, 700);
    BOOST_TEST(to_string((*link)->copy(copies.runs, true)->path) == "same");
    BOOST_TEST(copies.arrived());
  }
}

BOOST_AUTO_TEST_CASE(staged_copies_arrive_whatever_the_sizes) {
  const auto here = cpu(0), there = cpu(1);
  FarDevice far(2);
  const std::pair<Device*, Device*> pairs[] = {
      {here.get(), there.get()}, {here.get(), &far}, {&far, here.get()}};
  for (const auto& [from, to] : pairs) {
    const auto link = PeerLink::open(*from, *to, LinkChoice::kStaged, kSmall);
    BOOST_REQUIRE(link);
    for (const size_t run_bytes_max : {1U, 50U, 4096U, 30'000U}) {
      for (const size_t bytes : {1U, 4095U, 4096U, 4097U, 70'003U}) {
        Copies copies(*from, *to, bytes, run_bytes_max);
        const auto done = (*link)->copy(copies.runs, true);
        BOOST_REQUIRE(done);
        BOOST_TEST(to_string(done->path) == "staged");
        BOOST_TEST(done->bytes == bytes);
        BOOST_TEST(copies.arrived(), bytes << " bytes in runs of up to " << run_bytes_max);
      }
    }
    BOOST_TEST((*link)->copy({}, true).has_value());
    BOOST_TEST((*link)->retries() == 0);
  }
}

BOOST_AUTO_TEST_CASE(devices_out_of_reach_are_staged_and_the_note_says_so) {
  FarPair pair(false);
  const auto link = pair.open();
  BOOST_TEST(to_string(link->path()) == "staged");
  BOOST_TEST(link->note() == "cuda:1 does not reach the memory of cuda:0");
  Copies copies(pair.from, pair.to, 50'000, 2048);
  BOOST_TEST(link->copy(copies.runs, true).has_value());
  BOOST_TEST(copies.arrived());
  BOOST_TEST(pair.to.n_peer_copies == 0);
  const auto refused = PeerLink::open(pair.from, pair.to, LinkChoice::kPeer, kSmall);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == ErrorKind::kUnavailable));
  BOOST_TEST(contains(refused.error().message, "no peer copies from cuda:0 to cuda:1"));
}

BOOST_AUTO_TEST_CASE(peer_access_that_damages_the_pattern_is_not_used) {
  for (const int good : {0, 1, 4, 5}) {  // damage in any of the patterns
    FarPair pair(true);
    pair.to.spoilt_peer_copies.after = good;
    pair.to.spoilt_peer_copies.times = 1;
    const auto link = pair.open();
    BOOST_TEST(to_string(link->path()) == "staged");
    BOOST_TEST(contains(link->note(), "arrived damaged"));
    pair.to.spoilt_peer_copies.after = good;
    pair.to.spoilt_peer_copies.times = 1;
    const auto refused = PeerLink::open(pair.from, pair.to, LinkChoice::kPeer, kSmall);
    BOOST_REQUIRE(!refused);
    BOOST_TEST(contains(refused.error().message, "arrived damaged"));
  }
  FarPair pair(true);
  pair.to.failing_peer_copies.times = 1;
  BOOST_TEST(pair.open()->note() == "the peer copy failed");
}

BOOST_AUTO_TEST_CASE(a_link_without_any_good_path_is_an_error) {
  FarPair pair(true);
  pair.to.spoilt_peer_copies.times = 1;
  pair.from.spoilt_reads.times = 1000;
  const auto refused = PeerLink::open(pair.from, pair.to, LinkChoice::kAuto, kSmall);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == ErrorKind::kDataLoss));
  FarPair wrong(true);
  wrong.from.wrong_checksums = true;
  const auto unsure = PeerLink::open(wrong.from, wrong.to, LinkChoice::kAuto, kSmall);
  BOOST_REQUIRE(!unsure);
  BOOST_TEST(contains(unsure.error().message, "cuda:0 computes a wrong checksum"));
}

BOOST_AUTO_TEST_CASE(a_damaged_peer_copy_is_staged_and_peer_is_not_used_again) {
  FarPair pair(true);
  const auto link = pair.open();
  BOOST_TEST(to_string(link->path()) == "peer");
  Copies copies(pair.from, pair.to, 50'000, 2048);
  pair.to.spoilt_peer_copies.times = 1;
  const auto done = link->copy(copies.runs, true);
  BOOST_REQUIRE(done);
  BOOST_TEST(to_string(done->path) == "staged");
  BOOST_TEST(done->n_retries == 1);
  BOOST_TEST(copies.arrived());
  const int n_peer_copies = pair.to.n_peer_copies;
  BOOST_TEST(link->copy(copies.runs, true)->n_retries == 0);
  BOOST_TEST(pair.to.n_peer_copies == n_peer_copies);
  BOOST_TEST(link->retries() == 1);
  BOOST_TEST(to_string(link->path()) == "staged");
}

BOOST_AUTO_TEST_CASE(a_failed_peer_copy_is_staged_even_when_nothing_is_verified) {
  FarPair pair(true);
  const auto link = pair.open();
  Copies copies(pair.from, pair.to, 50'000, 2048);
  pair.to.failing_peer_copies.times = 1;
  BOOST_TEST(to_string(link->copy(copies.runs, false)->path) == "staged");
  BOOST_TEST(copies.arrived());
}

BOOST_AUTO_TEST_CASE(a_damaged_staged_copy_is_repeated_once) {
  FarPair pair(false);
  const auto link = pair.open();
  Copies copies(pair.from, pair.to, 50'000, 2048);
  for (const bool in_download : {true, false}) {
    test::CopyFault& fault = in_download ? pair.from.spoilt_reads : pair.to.spoilt_writes;
    fault.after = 5;
    fault.times = 1;
    const auto done = link->copy(copies.runs, true);
    BOOST_REQUIRE(done);
    BOOST_TEST(done->n_retries == 1);
    BOOST_TEST(copies.arrived());
  }
  pair.to.spoilt_writes.times = 1000;
  const auto lost = link->copy(copies.runs, true);
  BOOST_REQUIRE(!lost);
  BOOST_TEST((lost.error().kind == ErrorKind::kDataLoss));
  BOOST_TEST(link->retries() == 3);
  pair.to.spoilt_writes.times = 0;
  BOOST_TEST(link->copy(copies.runs, true).has_value());
  BOOST_TEST(copies.arrived());
}

BOOST_AUTO_TEST_CASE(a_damaged_peer_copy_and_a_damaged_staged_one_leave_one_more_attempt) {
  FarPair pair(true);
  const auto link = pair.open();
  Copies copies(pair.from, pair.to, 50'000, 2048);
  pair.to.spoilt_peer_copies.times = 1;
  pair.to.spoilt_writes.times = 1;
  const auto done = link->copy(copies.runs, true);
  BOOST_REQUIRE(done);
  BOOST_TEST(done->n_retries == 2);
  BOOST_TEST(copies.arrived());
}

// Errors in the middle of overlapping copies: on either side, at any chunk.
BOOST_AUTO_TEST_CASE(a_chunk_that_fails_ends_its_attempt_only) {
  FarPair pair(false);
  const auto link = pair.open();
  Copies copies(pair.from, pair.to, 50'000, 2048);
  for (int chunk = 0; chunk < 13; ++chunk) {
    for (test::CopyFault* fault : {&pair.from.failing_reads, &pair.to.failing_writes}) {
      fault->after = chunk;
      fault->times = 1;
      const auto done = link->copy(copies.runs, true);
      BOOST_REQUIRE(done);
      BOOST_TEST(done->n_retries == 1);
      BOOST_TEST(copies.arrived());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_lost_device_is_not_asked_again) {
  FarPair pair(false);
  const auto link = pair.open();
  Copies copies(pair.from, pair.to, 50'000, 2048);
  pair.to.lost = true;
  const int n_writes = pair.to.n_writes;
  const auto lost = link->copy(copies.runs, false);
  BOOST_REQUIRE(!lost);
  BOOST_TEST((lost.error().kind == ErrorKind::kUnavailable));
  BOOST_TEST(pair.to.n_writes == n_writes + 1);
  BOOST_TEST(!link->is_source_lost());
  BOOST_TEST(!link->copy(copies.runs, true));
  BOOST_TEST(!link->is_source_lost());
  pair.to.lost = false;
  BOOST_REQUIRE(link->copy(copies.runs, true));
  pair.from.lost = true;
  BOOST_TEST(!link->copy(copies.runs, true));
  BOOST_TEST(link->is_source_lost());
}

BOOST_AUTO_TEST_CASE(copies_take_no_device_memory) {
  FarPair pair(true);
  const auto link = pair.open();
  Copies copies(pair.from, pair.to, 50'000, 1);  // more runs than are checked together
  pair.to.spoilt_peer_copies.times = 1;
  const int n_allocations = pair.from.n_allocations + pair.to.n_allocations;
  BOOST_TEST(link->copy(copies.runs, true).has_value());
  BOOST_TEST(copies.arrived());
  BOOST_TEST(pair.from.n_allocations + pair.to.n_allocations == n_allocations);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
