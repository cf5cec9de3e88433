// Proves what `serve` and `run` share: a model's name is one and the same however its folder is
// reached, the load says how far it is, and a cut is refused where there is nothing to cut.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "app/served_engine.h"
#include "base/clock.h"
#include "support/source_dir.h"
#include "support/temp_dir.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(served_engine_tests)

BOOST_AUTO_TEST_CASE(a_model_has_one_name_however_its_folder_is_reached) {
  const test::TempDir dir;
  std::filesystem::create_directory(dir.path() / "tiny-1b");
  std::filesystem::create_directory_symlink("tiny-1b", dir.path() / "current");
  for (const char* spelling :
       {"tiny-1b", "tiny-1b/", "tiny-1b/.", "./current", "current/", "current/../tiny-1b//"}) {
    Config config;
    config.model = (dir.path() / spelling).string();
    BOOST_TEST(served_names(config) == std::vector<std::string>{"tiny-1b"},
               boost::test_tools::per_element());
  }
  Config config;
  config.model = dir.path() / "current";
  config.served_model_names = {"a", "b"};
  BOOST_TEST(served_names(config) == (std::vector<std::string>{"a", "b"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_loaded_engine_has_the_same_name_and_its_load_told_how_far_it_was) {
  const test::TempDir dir;
  std::filesystem::create_directory_symlink(source_dir() + "/models/demo/llava",
                                            dir.path() / "link");
  Config config;
  config.model = (dir.path() / "link").string();
  config.threads = 1;
  config.max_num_seqs = 1;
  const SystemClock clock;
  std::vector<size_t> done;
  size_t bytes_total = 0;
  const auto loaded = load_engine(
      config, clock, [] {},
      [&](size_t bytes_done, size_t total) {
        BOOST_TEST((bytes_total == 0 || total == bytes_total));
        bytes_total = total;
        done.push_back(bytes_done);
      });
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  BOOST_TEST((*loaded)->served->names == served_names(config), boost::test_tools::per_element());
  BOOST_REQUIRE(done.size() > 10U);
  BOOST_TEST(std::ranges::is_sorted(done));
  BOOST_TEST(done.front() < bytes_total / 2);
  BOOST_TEST(done.back() > bytes_total / 10 * 9);
  BOOST_TEST(done.back() <= bytes_total);
}

// The language model of the demo by itself.
BOOST_AUTO_TEST_CASE(a_cut_before_the_projector_is_refused_without_pictures) {
  const test::TempDir dir;
  for (const char* name : {"model.safetensors", "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::create_symlink((source_dir() + "/models/demo/llava/") + name,
                                    dir.path() / name);
  std::ofstream(dir.path() / "config.json") << R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1024,
    "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 6, "num_key_value_heads": 6, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu", "eos_token_id": 2})";
  const SystemClock clock;
  Config config;
  config.model = dir.path().string();
  const auto text = load_engine(config, clock, [] {});
  BOOST_REQUIRE_MESSAGE(text, (text ? "" : text.error().message));
  BOOST_TEST(!(*text)->model.spec.has_vision);
  config.cut = CutChoice::kPre;
  const auto refused = load_engine(config, clock, [] {});
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().message.starts_with("--cut pre: "));
  BOOST_TEST(refused.error().message.ends_with("takes no pictures"));
}

// Everything is known before a weight is read.
BOOST_AUTO_TEST_CASE(what_cannot_run_is_refused_before_the_load) {
  Config good;
  good.model = source_dir() + "/models/demo/llava";
  const auto refusal = [](const Config& config) {
    const Status checked = check_start(config);
    return checked ? std::string() : checked.error().message;
  };
  BOOST_TEST(refusal(good) == "");
  Config config = good;
  config.kv_blocks = 100'000'000;
  BOOST_TEST(refusal(config).starts_with("--kv-blocks 100000000 take "), refusal(config));
  config.kv_blocks = 3;
  BOOST_TEST(refusal(config).starts_with("--kv-blocks 3 of --block-size 16 hold 48 tokens"));
  config = good;
  config.max_model_len = 1 << 20;
  BOOST_TEST(refusal(config).find("max-model-len is 1048576") != std::string::npos);
  config = good;
  config.consumer = {"cpu:0"};
  config.datacenter = {"cuda:9"};
  BOOST_TEST(refusal(config).starts_with("--datacenter cuda:9: "), refusal(config));
  config.datacenter = {"cpu:0"};
  config.tensor_parallel = 2;
  BOOST_TEST(refusal(config).starts_with("--tensor-parallel 2 does not divide"), refusal(config));
}

BOOST_AUTO_TEST_CASE(kv_blocks_that_were_asked_for_must_fit) {
  Config config;
  config.kv_blocks = 10;
  BOOST_TEST(check_kv_room(config, 1 << 20, 2, 20U << 20).has_value());
  const auto refused = check_kv_room(config, 1 << 20, 2, (20U << 20) - 1);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == ErrorKind::kResourceExhausted));
  BOOST_TEST(refused.error().message.starts_with(
      "--kv-blocks 10 of 2 KV caches take 20 MiB, and 19 MiB of memory are free"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
