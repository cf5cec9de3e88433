// Proves where settings come from and which wins, that unknown names are errors with the nearest
// right one, and that contradictory limits are refused.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "app/config.h"
#include "app/served_engine.h"
#include "support/temp_dir.h"

namespace hs {
namespace {

namespace fs = std::filesystem;

// A folder of its own, flags and an environment.
struct ConfigFixture {
  ConfigFixture() {
    sources.system_file = folder / "heteroserve.toml";
    sources.environment = [this](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    };
  }

  void write(const fs::path& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  }
  Result<LoadedConfig> load() const {
    std::vector<std::string> entries;
    for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
    std::vector<const char*> names;
    for (const std::string& entry : entries) names.push_back(entry.c_str());
    return load_config(sources, names);
  }
  std::string error() const {
    const auto loaded = load();
    BOOST_REQUIRE(!loaded);
    return loaded.error().message;
  }

  test::TempDir temporary;
  const fs::path folder = temporary.path();
  ConfigSources sources;
  std::map<std::string, std::string> environment = {{"HOME", "/home/someone"}};
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(config_tests, ConfigFixture)

BOOST_AUTO_TEST_CASE(defaults_are_those_of_the_table) {
  const auto loaded = load();
  BOOST_REQUIRE(loaded);
  Config by_table;
  for (const Setting& setting : settings())
    if (*setting.default_text != '\0')
      BOOST_TEST(setting.set(by_table, setting.default_text).has_value(), setting.flag);
  const Config& config = loaded->config;
  BOOST_TEST(config.port == by_table.port);
  BOOST_TEST(config.max_num_seqs == by_table.max_num_seqs);
  BOOST_TEST(config.max_num_batched_tokens == by_table.max_num_batched_tokens);
  BOOST_TEST(config.block_size == by_table.block_size);
  BOOST_TEST(config.max_queue == by_table.max_queue);
  BOOST_TEST(config.max_connections == by_table.max_connections);
  BOOST_TEST(config.images_max == by_table.images_max);
  BOOST_TEST(config.max_image_mib == by_table.max_image_mib);
  BOOST_TEST(config.max_encode_patches == by_table.max_encode_patches);
  BOOST_TEST(config.shutdown_timeout_s == by_table.shutdown_timeout_s);
  BOOST_TEST((config.dtype == by_table.dtype));
  BOOST_TEST(config.host == "127.0.0.1");
  BOOST_TEST(config.log_path == "/home/someone/.local/state/heteroserve/requests.db");
}

BOOST_AUTO_TEST_CASE(hosts_of_pictures_are_a_list_and_each_is_looked_at) {
  BOOST_TEST(load()->config.allowed_media_domains.empty());
  BOOST_TEST(!load()->config.allow_private_media);
  write("heteroserve.toml",
        "[images]\nallowed_media_domains = [\"a.test\", \"*.b.test\"]\nmedia_timeout = 3\n");
  const std::vector<std::string> expected = {"a.test", "*.b.test"};
  BOOST_TEST(load()->config.allowed_media_domains == expected, boost::test_tools::per_element());
  BOOST_TEST(load()->config.media_timeout_s == 3);
  environment["HETEROSERVE_ALLOWED_MEDIA_DOMAINS"] = "c.test:8080";
  BOOST_TEST(load()->config.allowed_media_domains.at(0) == "c.test:8080");
  sources.flags["--allowed-media-domains"] = "a.test,http://b.test/x";
  BOOST_TEST(contains(error(), "--allowed-media-domains"));
  BOOST_TEST(contains(error(), "'http://b.test/x' is no host"));
  sources.flags.clear();
  environment.erase("HETEROSERVE_ALLOWED_MEDIA_DOMAINS");
  write("heteroserve.toml", "[images]\nallow_private_media = true\n");
  const auto warnings = config_warnings(load()->config);
  BOOST_REQUIRE(warnings.size() == 1U);
  BOOST_TEST(contains(warnings[0], "--allow-private-media has no effect"));
}

BOOST_AUTO_TEST_CASE(flag_beats_environment_beats_drop_in_beats_file) {
  write("heteroserve.toml",
        "[server]\nport = 1\n[engine]\nmax_queue = 1\nthreads = 1\nblock_size = 1\n");
  write("conf.d/20-b.toml", "[engine]\nmax_queue = 4\n");
  write("conf.d/10-a.toml", "[engine]\nmax_queue = 3\nthreads = 3\n");
  write("conf.d/ignored.txt", "nonsense");
  environment["HETEROSERVE_PORT"] = "5";
  environment["HETEROSERVE_THREADS"] = "6";
  sources.flags["--threads"] = "7";
  const auto loaded = load();
  BOOST_REQUIRE_MESSAGE(loaded, loaded.error().message);
  BOOST_TEST(loaded->config.block_size == 1);
  BOOST_TEST(loaded->config.max_queue == 4);
  BOOST_TEST(loaded->config.port == 5);
  BOOST_TEST(loaded->config.threads == 7);
  BOOST_TEST(contains(loaded->values.at("engine.max_queue").origin, "20-b.toml"));
  BOOST_TEST(loaded->values.at("server.port").origin == "environment HETEROSERVE_PORT");
  BOOST_TEST(loaded->values.at("engine.threads").origin == "flag");
  BOOST_TEST(loaded->values.at("server.host").origin == "default");
}

BOOST_AUTO_TEST_CASE(every_setting_can_be_set_in_each_way) {
  std::set<std::string> names;
  for (const Setting& setting : settings()) {
    BOOST_TEST(names.insert(setting.flag).second);
    BOOST_TEST(names.insert(setting.key).second);
    BOOST_TEST(names.insert(setting.environment).second);
    std::string twin = setting.flag;
    for (char& c : twin) c = c == '-' ? '_' : static_cast<char>(toupper(c));
    BOOST_TEST("HETEROSERVE" + twin.substr(1) == setting.environment);
    if (*setting.default_text == '\0') continue;
    environment[setting.environment] = setting.default_text;
    sources.flags[setting.flag] = setting.default_text;
  }
  BOOST_TEST(load().has_value());
}

BOOST_AUTO_TEST_CASE(unknown_names_are_errors_with_the_nearest) {
  write("heteroserve.toml", "[engine]\nmax_num_seq = 4\n");
  BOOST_TEST(contains(error(), "engine.max_num_seq'"));
  BOOST_TEST(contains(error(), "'engine.max_num_seqs'"));
  fs::remove(folder / "heteroserve.toml");
  environment["HETEROSERVE_PROT"] = "1";
  BOOST_TEST(contains(error(), "HETEROSERVE_PORT"));
}

BOOST_AUTO_TEST_CASE(bad_values_name_the_setting_and_where_it_was_set) {
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--port", "99999"},
                                                        {"--port", "-1"},
                                                        {"--port", "80x"},
                                                        {"--port", ""},
                                                        {"--dtype", "int3"},
                                                        {"--limit-mm-per-prompt", "video=1"},
                                                        {"--limit-mm-per-prompt", "image=x"},
                                                        {"--block-size", "0"},
                                                        {"--served-model-name", "a,,b"},
                                                        {"--log-level", "loud"},
                                                        {"--consumer", "cpu:0,,cpu:1"},
                                                        {"--datacenter", "cpu:0,"},
                                                        {"--partition", "halves"},
                                                        {"--transfer", "same"},
                                                        {"--cut", "middle"},
                                                        {"--steal", "maybe"},
                                                        {"--verify-transfers", "1"},
                                                        {"--tensor-parallel", "0"},
                                                        {"--steal-delay-ms", "0"},
                                                        {"--log-retention-days", "-1"},
                                                        {"--price-kwh", "-0.1"},
                                                        {"--price-kwh", "nan"},
                                                        {"--price-kwh", "0.3x"},
                                                        {"--price-device-hour", "cpu"},
                                                        {"--price-device-hour", "gpu=1"},
                                                        {"--price-device-hour", "cpu=1,,"},
                                                        {"--price-device-hour", "cpu=-1"},
                                                        {"--max-num-seqs", "1e3"}}) {
    sources.flags = {{flag, value}};
    BOOST_TEST(contains(error(), flag), flag << " " << value);
  }
  sources.flags.clear();
  write("heteroserve.toml", "[server]\nport = \"x\"\n");
  BOOST_TEST(contains(error(), "heteroserve.toml"));
  write("heteroserve.toml", "[server\n");
  BOOST_TEST(contains(error(), "heteroserve.toml:1"));
  write("heteroserve.toml", "[server]\nport = [[1]]\n");
  BOOST_TEST(contains(error(), "server.port"));
  sources.file = folder / "absent.toml";
  BOOST_TEST(contains(error(), "absent.toml"));
}

BOOST_AUTO_TEST_CASE(lists_of_the_file_are_lists) {
  write("heteroserve.toml", "[model]\nserved_model_name = [\"a\", \"b\"]\n");
  const auto loaded = load();
  BOOST_REQUIRE(loaded);
  BOOST_TEST(loaded->config.served_model_names == (std::vector<std::string>{"a", "b"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(contradictory_limits_are_refused) {
  Config config;
  BOOST_TEST(check_config(config).has_value());
  config.max_body_mib = 1;
  BOOST_TEST(contains(check_config(config).error().message, "--max-body-mib"));
  config.images_max = 0;
  BOOST_TEST(check_config(config).has_value());
  config.images_max = 3;
  config.max_body_mib = 81;  // 3 * 20 * 4 / 3 = 80 MiB, and what surrounds them
  BOOST_TEST(check_config(config).has_value());
  config.max_body_mib = 80;
  BOOST_TEST(!check_config(config));
  config = {};
  config.max_num_seqs = 1000;
  BOOST_TEST(contains(check_config(config).error().message, "--max-num-batched-tokens"));
  config = {};
  config.kv_blocks = 10;
  config.max_model_len = 161;
  BOOST_TEST(contains(check_config(config).error().message, "--kv-blocks"));
  config.max_model_len = 160;
  BOOST_TEST(check_config(config).has_value());
}

BOOST_AUTO_TEST_CASE(settings_that_change_nothing_are_told_in_one_line) {
  Config config;
  BOOST_TEST(config_warnings(config).empty());
  config.cut = CutChoice::kPre;
  config.transfer = LinkChoice::kPeer;
  BOOST_TEST(config_warnings(config) ==
                 (std::vector<std::string>{
                     "--cut pre has no effect: pictures stay on the device that answers",
                     "--transfer peer has no effect: nothing is copied between devices"}),
             boost::test_tools::per_element());
  config.consumer = {"cpu:0"};
  config.datacenter = {"cpu:1"};
  BOOST_TEST(config_warnings(config).empty());
  config.datacenter = {"cpu:0"};
  BOOST_TEST(config_warnings(config).size() == 2U);
  config.datacenter = {"cpu:1"};
  config.partition = Partition::kColocated;  // pictures stay; --transfer is kept quiet about
  BOOST_TEST(config_warnings(config).size() == 1U);
  config = {};
  config.cut = CutChoice::kPost;
  config.datacenter = {"cpu:0", "cpu:1"};
  config.tensor_parallel = 2;  // the first of the group encodes for itself
  BOOST_TEST(config_warnings(config).size() == 1U);
}

BOOST_AUTO_TEST_CASE(limits_that_work_but_serve_badly_are_warned_of) {
  Config config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 8;
  config.kv_blocks = 7;
  const auto warnings = config_warnings(config);
  BOOST_REQUIRE_EQUAL(warnings.size(), 2U);
  BOOST_TEST(contains(warnings[0], "--max-num-batched-tokens 8 is below --block-size 16"));
  BOOST_TEST(contains(warnings[1], "--kv-blocks 7 are fewer than --max-num-seqs 8"));
  BOOST_TEST(check_config(config).has_value());
}

BOOST_AUTO_TEST_CASE(a_devices_hour_is_priced_by_its_name_or_its_kind) {
  sources.flags = {{"--price-device-hour", "cpu=0.05,cuda=1,cuda:1=2.5"}, {"--price-kwh", "0.3"}};
  const auto loaded = load();
  BOOST_REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().message));
  const Config& config = loaded->config;
  BOOST_TEST(config.price_kwh == 0.3);
  BOOST_TEST(config.hour_price({DeviceId::Kind::kCpu, 3}) == 0.05);
  BOOST_TEST(config.hour_price({DeviceId::Kind::kCuda, 0}) == 1.0);
  BOOST_TEST(config.hour_price({DeviceId::Kind::kCuda, 1}) == 2.5);
  BOOST_TEST(Config{}.hour_price({DeviceId::Kind::kCpu, 0}) == 0.0);
}

BOOST_AUTO_TEST_CASE(tiers_are_read_from_every_source) {
  Config config;
  const auto set = [&](const std::string& flag, const char* value) {
    for (const Setting& setting : settings())
      if (setting.flag == flag) return setting.set(config, value).has_value();
    return false;
  };
  BOOST_TEST(set("--consumer", "cpu:0, cuda:1"));
  BOOST_TEST(config.consumer == (std::vector<std::string>{"cpu:0", "cuda:1"}),
             boost::test_tools::per_element());
  BOOST_TEST(set("--datacenter", "auto"));
  BOOST_TEST(set("--partition", "stage"));
  BOOST_TEST((config.partition == Partition::kStage));
  BOOST_TEST(set("--transfer", "staged"));
  BOOST_TEST((config.transfer == LinkChoice::kStaged));
  BOOST_TEST(set("--cut", "pre"));
  BOOST_TEST((config.cut == CutChoice::kPre));
  BOOST_TEST(set("--steal", "true"));
  BOOST_TEST((config.steal == StealMode::kOn));
  BOOST_TEST(set("--verify-transfers", "false"));
  BOOST_TEST(!config.verify_transfers);
  BOOST_TEST(set("--tensor-parallel", "2"));
  BOOST_TEST(config.tensor_parallel == 2);
}

BOOST_AUTO_TEST_CASE(tiers_that_contradict_each_other_are_refused) {
  Config config;
  config.consumer = {"cpu:0"};
  BOOST_TEST(check_config(config).error().message ==
             "--consumer is set but --datacenter is not: name devices for both roles, or auto");
  config = {};
  config.datacenter = {"cpu:0"};
  BOOST_TEST(contains(check_config(config).error().message, "--datacenter is set but"));
  config = {};
  config.steal = StealMode::kOn;
  config.partition = Partition::kStage;
  BOOST_TEST(contains(check_config(config).error().message, "--partition modality"));
  config = {};
  config.tensor_parallel = 2;
  config.partition = Partition::kColocated;
  BOOST_TEST(contains(check_config(config).error().message, "--partition colocated"));
  config.partition = Partition::kStage;
  BOOST_TEST(contains(check_config(config).error().message, "--partition stage"));
  config.partition = Partition::kModality;
  BOOST_TEST(check_config(config).has_value());
  config.datacenter = {"cpu:0", "cpu:1"};  // the first encodes pictures, too
  BOOST_TEST(check_config(config).has_value());
  config.datacenter.clear();
  config.consumer = {"cpu:0"};
  BOOST_TEST(contains(check_config(config).error().message, "--consumer is set but"));
}

BOOST_AUTO_TEST_CASE(default_bodies_hold_all_allowed_pictures) {
  Config config;
  BOOST_TEST(config.body_bytes_max() >= size_t{8} * 20 * 1024 * 1024 * 4 / 3);
  config.images_max = 0;
  BOOST_TEST(config.body_bytes_max() == size_t{64} << 20);
}

BOOST_AUTO_TEST_CASE(kv_blocks_follow_the_sequences_within_a_quarter_of_the_memory) {
  Config config;
  config.max_num_seqs = 4;
  config.block_size = 16;
  BOOST_TEST(*default_kv_blocks(config, 100, 1024, size_t{1} << 30) == 4 * 7);
  BOOST_TEST(*default_kv_blocks(config, 100, 1024, 4 * 10 * 1024) == 10);
  const auto refused = default_kv_blocks(config, 100, 1024, 4 * 6 * 1024);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(contains(refused.error().message, "--max-model-len"));
}

BOOST_AUTO_TEST_CASE(the_log_path_follows_the_service_then_the_user) {
  BOOST_TEST(default_log_path(sources.environment) ==
             "/home/someone/.local/state/heteroserve/requests.db");
  environment["XDG_STATE_HOME"] = "/x";
  BOOST_TEST(default_log_path(sources.environment) == "/x/heteroserve/requests.db");
  environment["STATE_DIRECTORY"] = "/var/lib/heteroserve:/other";
  BOOST_TEST(default_log_path(sources.environment) == "/var/lib/heteroserve/requests.db");
}

BOOST_AUTO_TEST_CASE(administrators_mean_the_services_files_but_what_is_named_is_stronger) {
  sources.service_state = "/var/lib/heteroserve";
  BOOST_TEST(load()->config.log_path == "/var/lib/heteroserve/requests.db");
  BOOST_TEST(load()->config.keys_path == "/var/lib/heteroserve/keys.db");
  write("heteroserve.toml", "[log]\npath = \"/elsewhere/log.db\"\n");
  BOOST_TEST(load()->config.log_path == "/elsewhere/log.db");
  environment["STATE_DIRECTORY"] = "/state";
  BOOST_TEST(load()->config.keys_path == "/state/keys.db");
}

BOOST_AUTO_TEST_CASE(the_services_default_model_gives_way_to_every_setting) {
  BOOST_TEST(load()->config.model.empty());
  environment["HETEROSERVE_DEFAULT_MODEL"] = "/shipped/demo";
  BOOST_TEST(load()->config.model == "/shipped/demo");
  BOOST_TEST(contains(load()->values.at("model.path").origin, "HETEROSERVE_DEFAULT_MODEL"));
  write("conf.d/model.toml", "[model]\npath = \"/mine\"\n");
  BOOST_TEST(load()->config.model == "/mine");
}

BOOST_AUTO_TEST_CASE(nearest_is_by_edit_distance) {
  const std::vector<std::string> words = {"port", "host", "threads"};
  BOOST_TEST(nearest("prot", words) == "port");
  BOOST_TEST(nearest("hots", words) == "host");
  BOOST_TEST(nearest("thread", words) == "threads");
  BOOST_TEST(nearest("x", {}).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
