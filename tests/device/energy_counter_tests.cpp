// Proves that the CPU's energy is the sum of its packages over their counters' turns, that a
// counter which cannot be read is told, and that a machine without NVIDIA's library says so.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "device/energy_counter.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

struct RaplFixture {
  void write(const std::string& zone, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(dir.path() / zone);
    std::ofstream(dir.path() / zone / file) << text << "\n";
  }
  void zone(const std::string& name, const std::string& label, int64_t energy_uj) const {
    write(name, "name", label);
    write(name, "energy_uj", std::to_string(energy_uj));
    write(name, "max_energy_range_uj", "10000000");
  }

  TempDir dir;
};

BOOST_FIXTURE_TEST_SUITE(energy_counter_tests, RaplFixture)

BOOST_AUTO_TEST_CASE(packages_add_up_and_their_parts_do_not) {
  zone("intel-rapl:0", "package-0", 5'000'000);
  zone("intel-rapl:1", "package-1", 9'000'000);
  zone("intel-rapl:0:0", "core", 1'000'000);
  zone("intel-rapl:2", "psys", 1'000'000);
  auto counter = open_rapl(dir.path());
  BOOST_TEST_REQUIRE(counter.has_value(), message_of(counter));
  BOOST_TEST((*counter)->joules().value() == 0.0);
  zone("intel-rapl:0", "package-0", 6'500'000);
  zone("intel-rapl:1", "package-1", 1'000'000);  // it began anew: 1 J up to its end, 1 J since
  zone("intel-rapl:0:0", "core", 2'000'000);
  BOOST_TEST((*counter)->joules().value() == 3.5, boost::test_tools::tolerance(1e-9));
  BOOST_TEST((*counter)->joules().value() == 3.5, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(what_is_not_there_or_cannot_be_read_is_an_error) {
  BOOST_TEST((open_rapl(dir.path()).error().kind == ErrorKind::kNotFound));
  BOOST_TEST((open_rapl(dir.path() / "none").error().kind == ErrorKind::kNotFound));
  write("intel-rapl:0", "name", "package-0");
  BOOST_TEST((open_rapl(dir.path()).error().kind == ErrorKind::kIo));
  write("intel-rapl:0", "energy_uj", "none");
  BOOST_TEST((open_rapl(dir.path()).error().kind == ErrorKind::kIo));
  zone("intel-rapl:0", "package-0", 1);
  auto counter = open_rapl(dir.path());
  BOOST_TEST_REQUIRE(counter.has_value());
  std::filesystem::remove(dir.path() / "intel-rapl:0" / "energy_uj");
  BOOST_TEST(((*counter)->joules().error().kind == ErrorKind::kIo));
}

BOOST_AUTO_TEST_CASE(a_library_that_is_not_there_or_another_one_is_no_nvml) {
  BOOST_TEST((Nvml::open("libno-such-thing.so.1").error().kind == ErrorKind::kNotFound));
  BOOST_TEST((Nvml::open("libc.so.6").error().kind == ErrorKind::kUnavailable));
}

// tests/device/fake_nvml.cpp: two cards, of which the second tells little.
BOOST_AUTO_TEST_CASE(cards_are_described_and_their_energy_read_through_nvml) {
  auto nvml = Nvml::open(HS_FAKE_NVML);
  BOOST_TEST_REQUIRE(nvml.has_value(), message_of(nvml));
  BOOST_TEST((*nvml)->driver_version().value() == "580.65.06");
  BOOST_TEST((*nvml)->cuda_version().value() == 13000);
  const auto gpus = (*nvml)->gpus();
  BOOST_TEST_REQUIRE(gpus.has_value());
  BOOST_TEST_REQUIRE(gpus->size() == 2U);
  const NvmlGpu& first = gpus->front();
  BOOST_TEST(first.name == "Fake RTX 4090");
  BOOST_TEST(first.uuid == "GPU-0");
  BOOST_TEST(first.pci == "00000000:41:00.0");
  BOOST_TEST(first.memory_bytes == size_t{24} << 30);
  BOOST_TEST(first.free_bytes == size_t{20} << 30);
  BOOST_TEST(first.cc_major == 8);
  BOOST_TEST(first.cc_minor == 9);
  BOOST_TEST(first.pcie_lanes == 8);
  BOOST_TEST(first.pcie_lanes_max == 16);
  BOOST_TEST(first.persistence == 0);
  BOOST_TEST(first.ecc == -1);  // a card without
  auto energy = open_gpu_energy(*nvml, "00000000:41:00.0");
  BOOST_TEST_REQUIRE(energy.has_value(), message_of(energy));
  const double before = (*energy)->joules().value();
  BOOST_TEST((*energy)->joules().value() - before == 2.5);  // each look takes 2.5 J there
  const auto second = open_gpu_energy(*nvml, "00000000:42:00.0");
  BOOST_TEST_REQUIRE(!second.has_value());
  BOOST_TEST(second.error().message == "Not Supported");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs::test
