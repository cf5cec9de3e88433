// Proves that doctor names the GPUs of a machine and tells of each link between them: its mode, its
// rate, its delay; and that it says what is wrong with them.
#include <algorithm>

#include "app/doctor_checks.h"
#include "cuda/serving.h"
#include "device/cuda/inventory.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;
using cuda_emu::Peer;

const CudaPlugin kPlugin{.list_devices = cuda::list_devices, .make_device = cuda::make_cuda_device};

Result<Gpus> emulated_gpus() {
  auto devices = cuda::list_devices();
  if (!devices) return std::unexpected(devices.error());
  return Gpus{
      .plugin = &kPlugin, .devices = std::move(*devices), .why_none = "", .is_installed = true};
}

// The findings about links from one device to another.
std::vector<std::string> links(Peer peer, LinkChoice transfer = LinkChoice::kAuto) {
  FakeMachine machine(two_cards(3, peer));
  Config config;
  config.consumer = {"4090"};
  config.datacenter = {"A100"};
  config.transfer = transfer;
  std::vector<std::string> texts;
  Findings found;
  check_links(config, emulated_gpus(), found);
  for (const Finding& finding : found) {
    if (finding.text.find(" -> ") != std::string::npos) texts.push_back(finding.text);
  }
  check_clean(machine);
  return texts;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(doctor_cuda_tests)

BOOST_AUTO_TEST_CASE(every_gpu_that_can_be_used_is_named) {
  FakeMachine machine(two_cards(1));
  Findings found;
  check_backend({}, emulated_gpus(), found);
  BOOST_REQUIRE(found.size() == 2U);
  BOOST_TEST(has(found[0].text, "cuda:0: NVIDIA GeForce RTX 4090, can be used"), found[0].text);
  BOOST_TEST(has(found[1].text, "cuda:1: NVIDIA A100"), found[1].text);
}

BOOST_AUTO_TEST_CASE(links_are_told_both_ways_with_mode_rate_and_delay) {
  struct Case {
    Peer peer;
    std::string_view mode;
    std::string_view note;
  };
  for (const Case& c :
       {Case{Peer::kNone, ": staged, ", "does not reach the memory of"},
        Case{Peer::kYes, ": peer, ", ""}, Case{Peer::kLies, ": staged, ", "arrived damaged"}}) {
    const auto texts = links(c.peer);
    BOOST_REQUIRE(texts.size() == 2U);
    BOOST_TEST(has(texts[0], "cuda:0 -> cuda:1"), texts[0]);
    BOOST_TEST(has(texts[1], "cuda:1 -> cuda:0"), texts[1]);
    for (const std::string& text : texts) {
      BOOST_TEST(has(text, c.mode), text);
      BOOST_TEST(has(text, " GB/s, "), text);
      BOOST_TEST(has(text, " us for 4 KiB"), text);
      BOOST_TEST(has(text, c.note), text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_wanted_peer_link_that_is_not_there_is_a_failure_with_its_fix) {
  FakeMachine machine(two_cards(1));
  Config config;
  config.consumer = {"4090"};
  config.datacenter = {"A100"};
  config.transfer = LinkChoice::kPeer;
  Findings found;
  check_links(config, emulated_gpus(), found);
  BOOST_TEST((found.back().health == Health::kFail));
  BOOST_TEST(has(found.back().text, "no peer copies from"), found.back().text);
  BOOST_TEST(!found.back().fix.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
