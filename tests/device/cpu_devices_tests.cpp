// Proves that CPU devices share the cores out evenly, keep neighbours together, and that threads
// run where their device is.
#include <sched.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/cpu/cpu_devices.h"
#include "device/cpu/cpu_team.h"

namespace hs {
namespace {

using Shares = std::vector<std::vector<int>>;

// Cores 0 to n-1, one logical core each, on one socket.
std::vector<CpuCore> plain(int n) {
  std::vector<CpuCore> cores;
  for (int cpu = 0; cpu < n; ++cpu) cores.push_back({.cpu = cpu, .package = 0, .core = cpu});
  return cores;
}

std::string text(const std::vector<int>& cores) {
  std::string out;
  for (const int core : cores) out += std::to_string(core) + " ";
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_devices_tests)

BOOST_AUTO_TEST_CASE(shares_are_even_and_use_every_core_once) {
  BOOST_TEST((split_cores(plain(2), 2) == Shares{{0}, {1}}));
  BOOST_TEST((split_cores(plain(5), 2) == Shares{{0, 1, 2}, {3, 4}}));
  BOOST_TEST(
      (split_cores({{.cpu = 7, .package = 0, .core = 3}, {.cpu = 2, .package = 0, .core = 1}}, 1) ==
       Shares{{2, 7}}));
  for (int n_cores = 1; n_cores <= 9; ++n_cores) {
    for (size_t n = 1; n <= static_cast<size_t>(n_cores); ++n) {
      const Shares shares = split_cores(plain(n_cores), n);
      BOOST_REQUIRE_EQUAL(shares.size(), n);
      std::multiset<int> seen;
      for (const auto& share : shares) {
        BOOST_TEST(share.size() >= static_cast<size_t>(n_cores) / n);
        BOOST_TEST(share.size() <= static_cast<size_t>(n_cores) / n + 1);
        seen.insert(share.begin(), share.end());
      }
      BOOST_TEST(seen.size() == static_cast<size_t>(n_cores));
      BOOST_TEST(std::set<int>(seen.begin(), seen.end()).size() == seen.size());
    }
  }
}

// Two sockets of two physical cores with two logical cores each, numbered as Linux does: first all
// first threads, then all second ones.
BOOST_AUTO_TEST_CASE(logical_cores_of_one_core_and_cores_of_one_socket_stay_together) {
  std::vector<CpuCore> cores;
  for (int cpu = 0; cpu < 8; ++cpu)
    cores.push_back({.cpu = cpu, .package = cpu % 4 / 2, .core = cpu % 2});
  BOOST_TEST((split_cores(cores, 2) == Shares{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  BOOST_TEST((split_cores(cores, 4) == Shares{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

BOOST_AUTO_TEST_CASE(places_are_those_of_the_processs_cores) {
  std::vector<int> cpus;
  for (const CpuCore& place : process_core_places()) cpus.push_back(place.cpu);
  BOOST_TEST(cpus == process_cores(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(one_device_has_all_cores_and_is_not_pinned) {
  const int index = 0;
  const auto devices = make_cpu_devices({&index, 1}, {});
  BOOST_REQUIRE(devices);
  BOOST_REQUIRE_EQUAL(devices->size(), 1U);
  const auto n_cores = process_cores().size();
  BOOST_TEST(
      (*devices)[0]->description().starts_with("cpu:0: " + std::to_string(n_cores) + " thread"));
  std::thread([&] {
    (*devices)[0]->attach_thread();
    BOOST_TEST(process_cores().size() == n_cores);
  }).join();
}

BOOST_AUTO_TEST_CASE(each_of_several_devices_runs_on_its_own_cores) {
  const size_t n_cores = process_cores().size();
  if (n_cores < 2) {
    BOOST_TEST_MESSAGE("one core: nothing to share");
    return;
  }
  const std::vector<int> indices{3, 1};
  const auto devices = make_cpu_devices(indices, {});
  BOOST_REQUIRE(devices);
  const Shares shares = split_cores(process_core_places(), 2);
  for (size_t i = 0; i < 2; ++i) {
    Device& device = *(*devices)[i];
    BOOST_TEST(device.id().index == indices[i]);
    BOOST_TEST(device.description().find(std::to_string(shares[i].size()) + " thread") !=
               std::string::npos);
    std::string where;
    std::thread([&] {
      device.attach_thread();
      where = text(process_cores());
    }).join();
    BOOST_TEST(where == text({shares[i].front()}));
  }
}

BOOST_AUTO_TEST_CASE(more_devices_than_cores_are_refused) {
  std::vector<int> indices(process_cores().size() + 1);
  std::iota(indices.begin(), indices.end(), 0);
  const auto devices = make_cpu_devices(indices, {});
  BOOST_REQUIRE(!devices);
  BOOST_TEST((devices.error().kind == ErrorKind::kInvalidArgument));
  BOOST_TEST(make_cpu_devices({}, {})->empty());
}

BOOST_AUTO_TEST_CASE(the_cpu_is_measured) {
  const DeviceInfo cpu = measure_cpu();
  BOOST_TEST(to_string(cpu.id) == "cpu:0");
  BOOST_TEST(!cpu.name.empty());
  BOOST_TEST(cpu.gflops > 0.1);
  BOOST_TEST(cpu.bandwidth_gbs > 0.01);
  BOOST_TEST(cpu.memory_bytes >= cpu.free_bytes);
  BOOST_TEST(cpu.free_bytes > 0U);
  BOOST_TEST_MESSAGE(cpu.name << ": " << cpu.gflops << " GFLOP/s, " << cpu.bandwidth_gbs
                              << " GB/s");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
