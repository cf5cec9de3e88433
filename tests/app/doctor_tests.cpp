// Proves that doctor tells each thing's state with what to do where it is not good, that its JSON
// is JSON, and that it tells no secrets.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "app/as_service.h"
#include "app/doctor.h"
#include "app/doctor_checks.h"
#include "base/clock.h"
#include "device/cpu/cpu_devices.h"
#include "hub/manifest.h"
#include "store/api_keys.h"
#include "store/database.h"
#include "store/request_log.h"
#include "support/source_dir.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

namespace fs = std::filesystem;

struct DoctorFixture {
  DoctorFixture() {
    config.model = source_dir() + "/models/demo/llava";
    config.log_path = (dir.path() / "requests.db").string();
    config.keys_path = (dir.path() / "keys.db").string();
    config.port = 0;
  }
  // The only finding of one health, or the first.
  static const Finding& of(const Findings& findings, Health health) {
    const auto found = std::ranges::find(findings, health, &Finding::health);
    BOOST_REQUIRE_MESSAGE(found != findings.end(), doctor_text(findings));
    return *found;
  }
  static bool has(const Finding& finding, std::string_view part) {
    return finding.text.find(part) != std::string::npos;
  }

  TempDir dir;
  Config config;
  Findings found;
};

BOOST_FIXTURE_TEST_SUITE(doctor_tests, DoctorFixture)

BOOST_AUTO_TEST_CASE(a_good_machine_has_no_failure_and_every_area_is_told) {
  const auto findings = examine(config, {});
  BOOST_TEST((worst_of(findings) != Health::kFail), doctor_text(findings));
  for (const char* area : {"system", "cpu", "memory", "gpu", "settings", "model", "links", "disk",
                           "port", "keys", "log", "energy", "service"})
    BOOST_TEST((std::ranges::find(findings, area, &Finding::area) != findings.end()), area);
  for (const Finding& finding : findings)
    BOOST_TEST((finding.health == Health::kOk || !finding.fix.empty()), finding.text);
}

BOOST_AUTO_TEST_CASE(the_json_is_json_with_the_worst_state_first) {
  const Findings findings = {{"a", Health::kOk, "good \"quoted\"\xff", ""},
                             {"b", Health::kWarn, "so so", "do this"}};
  const auto json = nlohmann::json::parse(doctor_json(findings));
  BOOST_TEST(json["status"] == "WARN");
  BOOST_TEST(json["findings"].size() == 2U);
  BOOST_TEST(json["findings"][0]["fix"].is_null());
  BOOST_TEST(json["findings"][1]["fix"] == "do this");
  BOOST_TEST(doctor_text(findings).ends_with("1 OK, 1 WARN, 0 FAIL\n"));
}

BOOST_AUTO_TEST_CASE(keys_and_tokens_are_left_out) {
  const std::string key = "hs-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq";
  BOOST_TEST(redacted("key " + key + " is, hf_abcdefghijklmnop too") ==
             "key hs-... is, hf_... too");
  BOOST_TEST(redacted("paths-of-something-long-and-harmless hs-short") ==
             "paths-of-something-long-and-harmless hs-short");
  config.model = "/models/" + key;
  for (const Finding& finding : examine(config, {})) BOOST_TEST(!has(finding, key), finding.text);
}

BOOST_AUTO_TEST_CASE(devices_are_linked_both_ways_with_a_checked_copy) {
  BOOST_TEST_REQUIRE(process_core_places().size() >= 2U);
  config.consumer = {"cpu:0"};
  config.datacenter = {"cpu:1"};
  check_links(config, find_gpus(config.device), found);
  int n_links = 0;
  for (const Finding& finding : found) {
    BOOST_TEST((finding.health == Health::kOk), finding.text);
    if (!has(finding, " -> ")) continue;
    ++n_links;
    BOOST_TEST(has(finding, ": peer, a checked copy arrived, "), finding.text);
    BOOST_TEST(has(finding, " GB/s, "));
  }
  BOOST_TEST(n_links == 2);
  found.clear();
  config.transfer = LinkChoice::kStaged;
  check_links(config, find_gpus(config.device), found);
  BOOST_TEST(has(found.back(), ": staged, "), found.back().text);
  found.clear();
  config.datacenter = {"cuda:7"};
  check_links(config, find_gpus(config.device), found);
  BOOST_TEST(has(of(found, Health::kFail), "--datacenter cuda:7"));
}

BOOST_AUTO_TEST_CASE(a_model_that_is_not_there_or_damaged_is_told) {
  config.model = "";
  check_model(config, false, found);
  BOOST_TEST(has(of(found, Health::kWarn), "no model is set"));
  found.clear();
  config.model = "/no/such/folder";
  check_model(config, false, found);
  BOOST_TEST(has(of(found, Health::kFail), "/no/such/folder"));
  found.clear();
  fs::copy(source_dir() + "/models/demo/llava", dir.path() / "model", fs::copy_options::recursive);
  config.model = (dir.path() / "model").string();
  const auto write = [&](const std::vector<StoredFile>& files) {
    dir.write("model/manifest.json",
              manifest_json({.repo = "org/name",
                             .source = "https://huggingface.co",
                             .revision = "main",
                             .commit = "0123456789abcdef0123456789abcdef01234567",
                             .architecture = "LlavaForConditionalGeneration",
                             .installed_ms = 1,
                             .files = files}));
  };
  // The SHA-256 of "abc" (FIPS 180-2).
  const std::string sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  write({{"config.json", 1, sum}, {"none", 1, sum}});
  check_model(config, true, found);
  BOOST_TEST(has(of(found, Health::kFail), "config.json has "));
  BOOST_TEST(doctor_text(found).find("none: No such file") != std::string::npos);
  for (const char* outside : {"../x", "/etc/passwd"}) {
    found.clear();
    write({{outside, 1, sum}});
    check_model(config, true, found);
    BOOST_TEST(has(of(found, Health::kWarn), "files is missing or wrong"));
  }
  found.clear();
  dir.write("model/abc", "abc");
  write({{"abc", 3, sum}});
  check_model(config, true, found);
  BOOST_TEST(has(found.back(), "1 files as in manifest.json (sizes and SHA-256)"),
             found.back().text);
  dir.write("model/abc", "abd");
  found.clear();
  check_model(config, false, found);
  BOOST_TEST(has(found.back(), "sizes; --checksums"), found.back().text);
  found.clear();
  check_model(config, true, found);
  BOOST_TEST(has(of(found, Health::kFail), "abc is damaged"));
  dir.write("model/manifest.json", "[]");
  found.clear();
  check_model(config, true, found);
  BOOST_TEST(has(of(found, Health::kWarn), "manifest.json"));
}

BOOST_AUTO_TEST_CASE(a_port_is_free_or_taken) {
  check_port(config, false, found);
  BOOST_TEST(has(found.back(), "is free"), found.back().text);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  BOOST_TEST_REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  BOOST_TEST_REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  config.port = ntohs(address.sin_port);  // bound, and nobody listens
  check_port(config, false, found);
  BOOST_TEST((found.back().health == Health::kFail), found.back().text);
  BOOST_TEST(found.back().fix.find("ss -ltnp") != std::string::npos);
  ::close(listener);
  config.host = "no host.invalid";
  check_port(config, false, found);
  BOOST_TEST((found.back().health == Health::kFail));
}

BOOST_AUTO_TEST_CASE(keys_are_needed_where_other_machines_reach) {
  check_keys(config, found);
  BOOST_TEST((found.back().health == Health::kOk));
  config.host = "0.0.0.0";
  check_keys(config, found);
  BOOST_TEST((found.back().health == Health::kFail));
  ApiKey wanted;
  wanted.name = "lab";
  BOOST_TEST_REQUIRE(create_key(config.keys_path, wanted, 1).has_value());
  check_keys(config, found);
  BOOST_TEST((found.back().health == Health::kWarn));  // no admin
  wanted.name = "boss";
  wanted.admin = true;
  BOOST_TEST_REQUIRE(create_key(config.keys_path, wanted, 1).has_value());
  check_keys(config, found);
  BOOST_TEST(has(found.back(), "2 good keys of 2"), found.back().text);
}

BOOST_AUTO_TEST_CASE(the_request_logs_state_is_told) {
  check_log(config, found);
  BOOST_TEST(has(found.back(), "is not there yet"));
  const SystemClock clock;
  {
    auto log = RequestLog::open(config.log_path, {}, clock);
    BOOST_TEST_REQUIRE(log.has_value());
    check_log(config, found);  // beside the server that has it open
    BOOST_TEST(has(found.back(), "0 rows"), found.back().text);
  }
  const auto set_version = [&](const char* version) {
    auto db = Database::open(config.log_path, Database::Mode::kReadWrite, 0);
    BOOST_TEST_REQUIRE(db->run(std::string("PRAGMA user_version = ") + version).has_value());
  };
  set_version("99");
  check_log(config, found);
  BOOST_TEST((found.back().health == Health::kFail));
  set_version("2");
  check_log(config, found);
  BOOST_TEST((found.back().health == Health::kWarn));
  dir.write("requests.db", std::string(9000, 'x'));
  check_log(config, found);
  BOOST_TEST((found.back().health == Health::kFail));
  config.log_path = "none";
  check_log(config, found);
  BOOST_TEST((found.back().health == Health::kOk));
}

struct NvidiaFixture : DoctorFixture {
  NvidiaFixture() {
    paths = {.dev = dir.path() / "dev",
             .proc_version = dir.path() / "version",
             .pci = dir.path() / "pci",
             .iommu_groups = dir.path() / "iommu",
             .nvml = "libno-such-nvml.so.1",
             .cuda = "libno-such-cuda.so.1"};
    fs::create_directories(paths.dev);
  }
  void add_card() {
    fs::create_directories(paths.pci / "0000:41:00.0");
    dir.write("pci/0000:41:00.0/vendor", "0x10de\n");
    dir.write("pci/0000:41:00.0/class", "0x030000\n");
  }
  void add_nodes() {
    for (const char* node : {"nvidiactl", "nvidia-uvm", "nvidia0"})
      dir.write(std::string("dev/") + node, "");
  }
  NvidiaPaths paths;
};

BOOST_FIXTURE_TEST_CASE(without_a_card_nothing_is_missing, NvidiaFixture) {
  check_nvidia(paths, found);
  BOOST_TEST_REQUIRE(found.size() == 1U);
  BOOST_TEST(has(found[0], "no NVIDIA device"));
}

BOOST_FIXTURE_TEST_CASE(a_card_without_a_driver_is_a_failure, NvidiaFixture) {
  add_card();
  check_nvidia(paths, found);
  BOOST_TEST_REQUIRE(found.size() == 1U);
  BOOST_TEST(has(of(found, Health::kFail), "1 NVIDIA device, and no driver is loaded"));
}

BOOST_FIXTURE_TEST_CASE(libraries_and_nodes_that_are_missing_are_named, NvidiaFixture) {
  add_card();
  dir.write("version", "NVRM version");
  check_nvidia(paths, found);
  const std::string text = doctor_text(found);
  for (const char* part :
       {"nvidiactl is not there", "nvidia-uvm is not there", "libno-such-cuda.so.1",
        "libno-such-nvml.so.1", "nvidia-modprobe -c 0 -u"})
    BOOST_TEST(text.find(part) != std::string::npos, part << "\n" << text);
}

BOOST_FIXTURE_TEST_CASE(cards_are_told_with_what_slows_them_down, NvidiaFixture) {
  add_card();
  add_nodes();
  paths.nvml = HS_FAKE_NVML;
  check_nvidia(paths, found);
  const std::string text = doctor_text(found);
  for (const char* part :
       {"device nodes open: nvidia-uvm, nvidia0, nvidiactl",
        "driver 580.65.06, for CUDA up to 13.0", "Fake RTX 4090", "PCIe 4 x8 (at most 4 x16)",
        "fewer PCIe lanes", "power limit 300 W", "is limited to 300 of 450 W", "-pl 450"})
    BOOST_TEST(text.find(part) != std::string::npos, part << "\n" << text);
}

BOOST_FIXTURE_TEST_CASE(an_iommu_between_two_cards_is_told, NvidiaFixture) {
  add_card();
  add_nodes();
  paths.nvml = HS_FAKE_NVML;
  const auto told = [&] {
    found.clear();
    check_nvidia(paths, found);
    return doctor_text(found).find("iommu=pt") != std::string::npos;
  };
  BOOST_TEST(!told());
  for (const auto& folder : {paths.iommu_groups / "0", paths.pci / "0000:42:00.0"})
    fs::create_directories(folder);
  dir.write("iommu/0/type", "DMA\n");
  BOOST_TEST(!told());  // one card
  dir.write("pci/0000:42:00.0/vendor", "0x10de\n");
  dir.write("pci/0000:42:00.0/class", "0x030200\n");
  BOOST_TEST(told());
  dir.write("iommu/0/type", "identity\n");
  BOOST_TEST(!told());
}

BOOST_AUTO_TEST_CASE(the_services_sandbox_is_what_its_unit_says) {
  const auto arguments = sandbox_arguments(
      "# /lib/systemd/system/heteroserve.service\n[Unit]\nAfter=network.target\n[Service]\n"
      "Type=notify\nUser=heteroserve\nExecStart=/usr/bin/heteroserve serve\nRestartSec=3\n"
      "WatchdogSec=30\n# said=before\nCapabilityBoundingSet=\nSystemCallFilter=@system-service\n"
      "SystemCallFilter = ~@privileged \\\n  @mount\nTimeoutStopSec=90\n[Install]\n"
      "WantedBy=multi-user.target\n# /etc/x.conf\n[Service]\nMemoryDenyWriteExecute=no\n");
  const std::vector<std::string> expected = {"-p", "User=heteroserve",
                                             "-p", "CapabilityBoundingSet=",
                                             "-p", "SystemCallFilter=@system-service",
                                             "-p", "SystemCallFilter=~@privileged  @mount",
                                             "-p", "MemoryDenyWriteExecute=no"};
  BOOST_TEST(arguments == expected, boost::test_tools::per_element());
  BOOST_TEST(sandbox_arguments("").empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs::test
