// Proves that what `make gpu-check` runs on a GPU runs: every part measures something on emulated
// cards, one and two of them; its report is JSON a line; a machine without a GPU is told so.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cuda/serving.h"
#include "cuda/tiny_checkpoint.h"
#include "device/cuda/inventory.h"
#include "gpu/check.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;
using gpu::Measurement;
using gpu::Report;

const CudaPlugin kPlugin{.list_devices = cuda::list_devices, .make_device = cuda::make_cuda_device};

gpu::Options tiny_options(const TempDir& dir) {
  gpu::Options options;
  options.model = options.demo = dir.path().string();
  options.sizes = gpu::small_sizes();
  return options;
}

// The parts that have targets.
std::set<std::string> parts_with_targets(const Report& report) {
  std::set<std::string> parts;
  for (const Measurement& m : report.measurements()) {
    if (m.target != Measurement::Target::kNone) parts.insert(m.part);
  }
  return parts;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gpu_check_tests)

BOOST_AUTO_TEST_CASE(every_part_measures_something_on_one_card_and_on_two) {
  const TempDir dir;
  write_tiny_llava(dir.path());
  for (const bool two : {false, true}) {
    auto spec = two_cards(5);
    if (!two) spec.devices.resize(1);
    FakeMachine machine(spec);
    const auto report = gpu::check_gpus(kPlugin, tiny_options(dir));
    BOOST_REQUIRE_MESSAGE(report.has_value(), message_of(report));
    std::set<std::string> parts;
    for (const Measurement& m : report->measurements()) {
      BOOST_TEST(std::isfinite(m.value), m.name);
      BOOST_TEST(m.value >= 0, m.name);
      parts.insert(m.part);
    }
    BOOST_TEST((parts == std::set<std::string>{"answers", "attention", "links", "machine", "model",
                                               "products", "small ops", "tiers"}),
               report->table());
    BOOST_TEST((parts_with_targets(*report) ==
                std::set<std::string>{"answers", "links", "model", "products", "tiers"}));
    BOOST_TEST(report->table().find("not measured:") == std::string::npos, report->table());
    check_clean(machine);
  }
}

BOOST_AUTO_TEST_CASE(a_report_is_a_table_and_one_line_of_json_a_measurement) {
  Report report;
  report.add("machine", "a \"rate\"", 1234.5, "GB/s");
  report.at_least("model", "a share", 0.9, 0.85);
  report.at_most("model", "a ratio", 1.2, 1.1);
  report.miss("links", "why\nnot");
  BOOST_TEST(report.n_missed() == 2);
  const std::string table = report.table();
  BOOST_TEST(table.find(">= 0.85  OK") != std::string::npos, table);
  BOOST_TEST(table.find("<= 1.1   MISSED") != std::string::npos, table);
  BOOST_TEST(table.ends_with("3 measurements, 2 targets, 2 missed or not measured\n"), table);
  std::istringstream lines(report.json_lines());
  std::vector<nlohmann::json> parsed;
  for (std::string line; std::getline(lines, line);) parsed.push_back(nlohmann::json::parse(line));
  BOOST_REQUIRE(parsed.size() == 5U);
  BOOST_TEST(parsed[0]["name"] == "a \"rate\"");
  BOOST_TEST(parsed[1]["result"] == "OK");
  BOOST_TEST(parsed[2]["result"] == "MISSED");
  BOOST_TEST(parsed[3]["not_measured"] == "why\nnot");
  BOOST_TEST(parsed[4]["missed"] == 2);
}

BOOST_AUTO_TEST_CASE(without_a_gpu_nothing_is_measured_and_one_line_says_so) {
  const TempDir dir;
  FakeMachine machine({.devices = {}});
  const auto report = gpu::check_gpus(kPlugin, tiny_options(dir));
  BOOST_REQUIRE(!report.has_value());
  BOOST_TEST(report.error().message.starts_with("no NVIDIA device"));
  BOOST_TEST(report.error().message.find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_card_that_is_lost_ends_the_check_with_its_error) {
  const TempDir dir;
  write_tiny_llava(dir.path());
  FakeMachine machine(two_cards(6));
  machine.fail_operation(0, 200, cudaErrorECCUncorrectable);
  const auto report = gpu::check_gpus(kPlugin, tiny_options(dir));
  BOOST_REQUIRE(!report.has_value());
  BOOST_TEST(report.error().message.find("cudaErrorECCUncorrectable") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
