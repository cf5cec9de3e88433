// Proves how devices are named and ranked for the two roles, and that a role is never filled with
// a device nobody asked for.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "app/device_roles.h"

namespace hs {
namespace {

using Names = std::vector<std::string>;

DeviceInfo gpu(int index, const std::string& name, double gflops, double bandwidth_gbs) {
  return {.id = {DeviceId::Kind::kCuda, index},
          .name = name,
          .uuid = "GPU-" + std::string(1, static_cast<char>('a' + index)) + "0c7",
          .pci = "0000:4" + std::to_string(index) + ":00.0",
          .memory_bytes = size_t{24} << 30,
          .free_bytes = size_t{20} << 30,
          .gflops = gflops,
          .bandwidth_gbs = bandwidth_gbs,
          .basis = "published"};
}

DeviceInventory cpu_only(int32_t n_cores = 4) {
  DeviceInventory inventory;
  inventory.cpu.name = "AMD EPYC";
  inventory.cpu.memory_bytes = size_t{64} << 30;
  inventory.cpu.free_bytes = size_t{60} << 30;
  inventory.cpu.gflops = 100;
  inventory.cpu.bandwidth_gbs = 40;
  inventory.cpu.basis = "measured";
  inventory.n_cores = n_cores;
  return inventory;
}

// Two cards of each kind, as the system numbers them.
DeviceInventory two_tiers() {
  DeviceInventory inventory = cpu_only();
  inventory.gpus = {gpu(0, "NVIDIA GeForce RTX 4090", 165000, 1008),
                    gpu(1, "NVIDIA A100-PCIE-80GB", 312000, 1935),
                    gpu(2, "NVIDIA GeForce RTX 4090", 165000, 1008),
                    gpu(3, "NVIDIA A100-SXM4-80GB", 312000, 2039)};
  return inventory;
}

Config asked(Names consumer, Names datacenter) {
  Config config;
  config.consumer = std::move(consumer);
  config.datacenter = std::move(datacenter);
  return config;
}

std::string text(const std::vector<DeviceId>& devices) {
  std::string out;
  for (const DeviceId id : devices) out += (out.empty() ? "" : " ") + to_string(id);
  return out;
}

// "consumers | datacenters", or the error's message.
std::string chosen(const Config& config, const DeviceInventory& inventory) {
  const auto roles = choose_roles(config, inventory);
  return roles ? text(roles->consumer) + " | " + text(roles->datacenter) : roles.error().message;
}

bool contains(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(device_roles_tests)

BOOST_AUTO_TEST_CASE(every_form_of_a_name_finds_the_device) {
  for (const char* name : {"cuda:1", "1", "GPU-b0c7", "gpu-B0", "41:00.0", "0000:41:00.0",
                           "00000000:41:00.0", "a100-pcie", "PCIE"})
    BOOST_TEST(chosen(asked({name}, {"cuda:0"}), two_tiers()) == "cuda:1 | cuda:0", name);
  for (const char* name : {"cpu", "cpu:0", "0", "EPYC", "CPU:0"})
    BOOST_TEST(chosen(asked({name}, {"cpu:1"}), cpu_only()) == "cpu:0 | cpu:1", name);
}

BOOST_AUTO_TEST_CASE(a_name_that_is_a_number_is_an_index_first) {
  DeviceInventory inventory = two_tiers();
  inventory.gpus.pop_back();
  inventory.gpus.erase(inventory.gpus.begin() + 2);  // a 4090 and an A100
  BOOST_TEST(chosen(asked({"4090"}, {"1"}), inventory) == "cuda:0 | cuda:1");
  BOOST_TEST(contains(chosen(asked({"4090"}, {"1"}), two_tiers()), "2 devices fit"));
}

BOOST_AUTO_TEST_CASE(unknown_and_ambiguous_names_are_errors_that_name_the_flag) {
  const auto expect = [](const Config& config, const DeviceInventory& inventory,
                         const std::string& message) {
    BOOST_TEST(chosen(config, inventory) == message);
  };
  const std::string all =
      "; there are cuda:0 (NVIDIA GeForce RTX 4090, 0000:40:00.0, GPU-a0c7), cuda:1 (NVIDIA "
      "A100-PCIE-80GB, 0000:41:00.0, GPU-b0c7), cuda:2 (NVIDIA GeForce RTX 4090, 0000:42:00.0, "
      "GPU-c0c7), cuda:3 (NVIDIA A100-SXM4-80GB, 0000:43:00.0, GPU-d0c7), cpu:0 to cpu:3 (AMD "
      "EPYC)";
  expect(asked({"cuda:0"}, {"cpu:0"}), cpu_only(1),
         "--consumer cuda:0: no GPU can be used here; there are cpu:0 (AMD EPYC)");
  expect(asked({"cpu:0"}, {"cuda:7"}), two_tiers(), "--datacenter cuda:7: no such GPU" + all);
  expect(asked({"cpu:0"}, {"7"}), two_tiers(), "--datacenter 7: no such GPU" + all);
  expect(asked({"cpu:0"}, {"cpu:2"}), cpu_only(2),
         "--datacenter cpu:2: CPU devices are cpu:0 to cpu:1, one for each core at most");
  expect(asked({"cpu:-1"}, {"cpu"}), cpu_only(1),
         "--consumer cpu:-1: CPU devices are cpu:0 to cpu:0, one for each core at most");
  expect(asked({"H100"}, {"cpu"}), two_tiers(), "--consumer H100: no such device" + all);
  expect(asked({"GPU-zz"}, {"cpu"}), two_tiers(), "--consumer GPU-zz: no such device" + all);
  expect(asked({"99:00.0"}, {"cpu"}), two_tiers(), "--consumer 99:00.0: no such device" + all);
  expect(asked({"0001:41:00.0"}, {"cpu"}), two_tiers(),
         "--consumer 0001:41:00.0: no such device" + all);
  expect(asked({"GeForce"}, {"cuda:1"}), two_tiers(),
         "--consumer GeForce: 2 devices fit: cuda:0 (NVIDIA GeForce RTX 4090, 0000:40:00.0, "
         "GPU-a0c7), cuda:2 (NVIDIA GeForce RTX 4090, 0000:42:00.0, GPU-c0c7)");
  expect(asked({"cuda:0", "40:00.0"}, {"cuda:1"}), two_tiers(),
         "--consumer 40:00.0: cuda:0 is named twice");
  expect(asked({"cuda:0", "auto"}, {"cuda:1"}), two_tiers(),
         "--consumer: auto stands alone, not among devices");
  expect(asked({"auto", "cuda:0"}, {"cuda:1"}), two_tiers(),
         "--consumer: auto stands alone, not among devices");
  for (const char* strange : {":", ".", "cpu:", "cuda:x", "::.", "0x1", ":::0.0", "GPU-", " "})
    BOOST_TEST(!choose_roles(asked({strange}, {"cuda:1"}), two_tiers()), strange);
}

BOOST_AUTO_TEST_CASE(auto_gives_fast_memory_to_the_datacenter) {
  BOOST_TEST(chosen(asked({}, {}), two_tiers()) == "cuda:0 cuda:2 | cuda:1 cuda:3");
  BOOST_TEST(chosen(asked({"auto"}, {"auto"}), two_tiers()) == "cuda:0 cuda:2 | cuda:1 cuda:3");
  // The one role leaves the other what is left, by the same rule.
  BOOST_TEST(chosen(asked({"cuda:0"}, {"auto"}), two_tiers()) == "cuda:0 | cuda:1 cuda:3");
  BOOST_TEST(chosen(asked({"auto"}, {"cuda:1"}), two_tiers()) == "cuda:0 cuda:2 | cuda:1");
  BOOST_TEST(chosen(asked({"auto"}, {"cuda:1", "cuda:3"}), two_tiers()) ==
             "cuda:0 cuda:2 | cuda:1 cuda:3");
}

BOOST_AUTO_TEST_CASE(the_consumer_with_the_most_compute_comes_first) {
  DeviceInventory inventory = two_tiers();
  inventory.gpus[2].gflops = 200000;
  BOOST_TEST(chosen(asked({}, {}), inventory) == "cuda:2 cuda:0 | cuda:1 cuda:3");
}

BOOST_AUTO_TEST_CASE(auto_gives_devices_that_are_alike_both_roles) {
  DeviceInventory inventory = two_tiers();
  inventory.gpus = {inventory.gpus[1], inventory.gpus[3]};
  BOOST_TEST(chosen(asked({}, {}), inventory) == "cuda:1 cuda:3 | cuda:1 cuda:3");
  BOOST_TEST(chosen(asked({}, {}), cpu_only()) == "cpu:0 | cpu:0");
  // Nothing is left for the other role, which is then on the same devices and says so.
  BOOST_TEST(chosen(asked({"cpu:1"}, {"auto"}), cpu_only()) == "cpu:1 | cpu:1");
  const auto roles = choose_roles(asked({"cpu:1"}, {"auto"}), cpu_only());
  BOOST_TEST(roles->rows[0].why == "named by --consumer; auto: no other device");
}

BOOST_AUTO_TEST_CASE(cpu_devices_are_shares_of_the_machine) {
  const auto roles = choose_roles(asked({"cpu:3"}, {"cpu:0", "cpu:1"}), cpu_only(4));
  BOOST_REQUIRE(roles);
  BOOST_REQUIRE_EQUAL(roles->rows.size(), 3U);
  BOOST_TEST(!roles->one_device());
  BOOST_TEST(to_string(roles->rows[0].device.id) == "cpu:3");
  BOOST_TEST(roles->rows[0].device.name == "AMD EPYC, 1 core");
  BOOST_TEST(roles->rows[0].device.gflops == 25);
  BOOST_TEST(roles->rows[1].device.name == "AMD EPYC, 2 cores");
  BOOST_TEST(roles->rows[1].device.bandwidth_gbs == 20);
  BOOST_TEST(roles->rows[1].device.free_bytes == size_t{20} << 30);
}

BOOST_AUTO_TEST_CASE(partitions_that_the_devices_cannot_hold_are_refused) {
  const auto refusal = [](Config config, const DeviceInventory& inventory) {
    const auto roles = choose_roles(config, inventory);
    BOOST_REQUIRE(roles);
    const Status checked = check_roles(config, *roles);
    return checked ? std::string() : checked.error().message;
  };
  Config config = asked({"cpu:0"}, {"cpu:0"});
  BOOST_TEST(refusal(config, cpu_only()).empty());
  config.partition = Partition::kStage;
  BOOST_TEST(contains(refusal(config, cpu_only()), "cpu:0 has both roles"));
  config.datacenter = {"cpu:1"};
  BOOST_TEST(refusal(config, cpu_only()).empty());
  config = asked({"cpu:0"}, {"cpu:0"});
  config.steal = StealMode::kOn;
  BOOST_TEST(contains(refusal(config, cpu_only()), "--steal on needs a consumer device"));
  config.consumer = {"cpu:0", "cpu:1"};
  BOOST_TEST(refusal(config, cpu_only()).empty());
  config = asked({"cuda:0"}, {"cuda:1", "cuda:2", "cuda:3"});
  config.tensor_parallel = 4;
  BOOST_TEST(contains(refusal(config, two_tiers()), "--tensor-parallel 4"));
  config.tensor_parallel = 2;
  BOOST_TEST(contains(refusal(config, two_tiers()), "3 datacenter devices"));
  config.tensor_parallel = 3;
  BOOST_TEST(refusal(config, two_tiers()).empty());
}

BOOST_AUTO_TEST_CASE(without_a_consumer_the_first_of_each_group_encodes) {
  Config config = asked({}, {"cpu:1", "cpu:2", "cpu:3", "cpu:0"});
  config.tensor_parallel = 2;
  BOOST_TEST(chosen(config, cpu_only(4)) == "cpu:1 cpu:3 | cpu:1 cpu:2 cpu:3 cpu:0");
  const auto roles = choose_roles(config, cpu_only(4));
  BOOST_REQUIRE(roles);
  BOOST_TEST(check_roles(config, *roles).has_value());
  const std::string table = roles_table(config, *roles);
  for (const char* part : {"first of its group; named by --datacenter", "pictures on cpu:1, cpu:3",
                           "text on cpu:1 + cpu:2, cpu:3 + cpu:0 (tensor parallel)"})
    BOOST_TEST(contains(table, part), part << " in\n" << table);
  config.datacenter = {"auto"};
  BOOST_TEST(chosen(config, two_tiers()) == "cuda:1 | cuda:1 cuda:3");
  config.steal = StealMode::kOn;
  BOOST_TEST(contains(check_roles(config, *choose_roles(config, two_tiers())).error().message,
                      "--steal on needs a consumer device of its own"));
}

BOOST_AUTO_TEST_CASE(the_table_says_what_was_chosen_and_why) {
  Config config = asked({"cpu:0"}, {"cpu:1"});
  const auto roles = choose_roles(config, cpu_only(2));
  const std::string table = roles_table(config, *roles);
  for (const char* part : {"DEVICE", "cpu:0", "consumer", "named by --consumer", "cpu:1",
                           "datacenter", "30.0", "50", "20.0", "measured", "AMD EPYC, 1 core",
                           "partition modality: pictures on cpu:0, text on cpu:1"})
    BOOST_TEST(contains(table, part), part << " in\n" << table);
  const Config one;
  BOOST_TEST(contains(roles_table(one, *choose_roles(one, cpu_only())),
                      "cpu:0 has both roles and serves whole requests"));
  BOOST_TEST_MESSAGE(table);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
