// Pulling from a scripted hub: only what can be run comes, whole and with the right hash, whatever
// happens on the way; and what went wrong is told apart.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "hub/pull.h"
#include "hub/stub_hub.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs {
namespace {

using test::http_answer;
using test::kCommit;
using test::StubHub;

const ModelRef kTiny{"org", "tiny", ""};

struct Fixture {
  test::TempDir dir;
  ModelStore store{dir.path() / "models"};
  SystemClock clock;
  PullHooks hooks;

  Fixture() {
    hooks.retry_wait_ms = 0;
    hooks.tries_max = 3;
  }
  Result<StoredModel> pull(const HubEndpoint& endpoint) {
    auto plan = plan_pull(store, endpoint, kTiny, {});
    if (!plan) return std::unexpected(plan.error());
    plan->disk = {int64_t{1} << 50, 0};
    return run_pull(store, endpoint, *plan, hooks, clock);
  }
  std::filesystem::path partial() const { return store.partial_path(kTiny, kCommit); }
  static std::string text_of(const std::filesystem::path& path) {
    return read_file(path, size_t{1} << 24).value_or("(cannot be read)");
  }
};

std::string code_of(const auto& result) {
  return result ? std::string() : result.error().code;
}

bool is_weights(const std::string& head) {
  return head.find("model.safetensors ") != head.npos;
}

BOOST_FIXTURE_TEST_SUITE(pull_tests, Fixture)

BOOST_AUTO_TEST_CASE(only_what_can_be_run_comes_with_a_manifest) {
  StubHub hub;
  std::vector<PullProgress> told;
  hooks.progress = [&](const PullProgress& progress) { told.push_back(progress); };
  const auto model = pull(hub.endpoint());
  BOOST_REQUIRE_MESSAGE(model, test::message_of(model));
  BOOST_TEST(model->path == dir.path() / "models/org/tiny" / kCommit);
  BOOST_TEST(model->manifest.architecture == "LlamaForCausalLM");
  BOOST_TEST(model->manifest.commit == kCommit);
  BOOST_TEST(model->manifest.files.size() == 3U);
  for (const auto& [name, bytes] : hub.sent) {
    const bool wanted = name != "pytorch_model.bin" && name != "README.md";
    BOOST_TEST(std::filesystem::exists(model->path / name) == wanted, name);
    if (wanted) BOOST_TEST((text_of(model->path / name) == bytes), name);
  }
  BOOST_TEST(hub.count("pytorch_model.bin") == 0U);
  BOOST_TEST(told.back().bytes_done == told.back().bytes_total);
  BOOST_TEST(std::ranges::is_sorted(told, {}, &PullProgress::bytes_done));
  BOOST_TEST(store.partials()->empty());
  BOOST_TEST(store.list()->size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_plan_says_what_is_missing_and_fetches_nothing_large) {
  StubHub hub;
  const auto plan = plan_pull(store, hub.endpoint(), kTiny, {});
  BOOST_REQUIRE_MESSAGE(plan, test::message_of(plan));
  BOOST_TEST(plan->files.size() == 3U);
  BOOST_TEST(plan->bytes_missing == plan->bytes_total);
  BOOST_TEST(plan->weight_bytes == static_cast<int64_t>(hub.sent["model.safetensors"].size()));
  BOOST_TEST(!plan->installed);
  BOOST_TEST(plan->disk.free_bytes > 0);
  BOOST_TEST(hub.count(".safetensors") == 0U);
  BOOST_TEST(!std::filesystem::exists(store.root()));
}

BOOST_AUTO_TEST_CASE(a_model_that_is_there_is_not_fetched_again) {
  StubHub hub;
  BOOST_REQUIRE(pull(hub.endpoint()));
  const size_t before = hub.count(".safetensors");
  const auto plan = plan_pull(store, hub.endpoint(), kTiny, {});
  BOOST_REQUIRE(plan);
  BOOST_TEST(plan->installed);
  BOOST_TEST(plan->bytes_missing == 0);
  BOOST_TEST(pull(hub.endpoint()).has_value());
  BOOST_TEST(hub.count(".safetensors") == before);
}

BOOST_AUTO_TEST_CASE(bytes_from_another_host_come_without_the_token) {
  StubHub mirror;
  StubHub hub([&](const std::string& head) -> std::string {
    if (!is_weights(head)) return {};
    return http_answer(302, "", {"Location: " + mirror.endpoint().url + test::path_of(head)});
  });
  HubEndpoint endpoint = hub.endpoint();
  endpoint.token = "hf_secret";
  const auto model = pull(endpoint);
  BOOST_REQUIRE_MESSAGE(model, test::message_of(model));
  BOOST_TEST(hub.count("Authorization: Bearer hf_secret") == hub.heads().size());
  BOOST_TEST(mirror.heads().size() == 1U);
  BOOST_TEST(mirror.count("hf_secret") == 0U);
}

BOOST_AUTO_TEST_CASE(a_cut_connection_is_taken_up_where_it_broke) {
  std::atomic<int> n_cut = 0;
  StubHub* hub_there = nullptr;
  StubHub hub([&](const std::string& head) -> std::string {
    if (!is_weights(head) || ++n_cut > 4) return {};
    std::string whole = hub_there->file_answer(head, hub_there->sent["model.safetensors"]);
    return whole.substr(0, whole.find("\r\n\r\n") + 4 + 20'000);
  });
  hub_there = &hub;
  const auto model = pull(hub.endpoint());  // more cuts than tries: each brought bytes
  BOOST_REQUIRE_MESSAGE(model, test::message_of(model));
  BOOST_TEST((text_of(model->path / "model.safetensors") == hub.sent["model.safetensors"]));
  BOOST_TEST(hub.count("Range: bytes=20000-") == 1U);
  BOOST_TEST(hub.count("Range: bytes=80000-") == 1U);
}

BOOST_AUTO_TEST_CASE(a_later_pull_goes_on_where_an_earlier_one_ended) {
  StubHub hub;
  const std::string& bytes = hub.sent["model.safetensors"];
  std::filesystem::create_directories(partial());
  std::ofstream(partial() / "model.safetensors.part", std::ios::binary) << bytes.substr(0, 70'000);
  const auto plan = plan_pull(store, hub.endpoint(), kTiny, {});
  BOOST_REQUIRE(plan);
  BOOST_TEST(plan->bytes_total - plan->bytes_missing == 70'000);
  const auto model = pull(hub.endpoint());
  BOOST_REQUIRE_MESSAGE(model, test::message_of(model));
  BOOST_TEST((text_of(model->path / "model.safetensors") == bytes));
  BOOST_TEST(hub.count("Range: bytes=70000-") == 1U);
}

BOOST_AUTO_TEST_CASE(a_server_without_ranges_sends_all_again) {
  StubHub* hub_there = nullptr;
  StubHub hub([&](const std::string& head) -> std::string {
    return is_weights(head) ? http_answer(200, hub_there->sent["model.safetensors"]) : "";
  });
  hub_there = &hub;
  std::filesystem::create_directories(partial());
  std::ofstream(partial() / "model.safetensors.part", std::ios::binary) << std::string(5000, 'x');
  const auto model = pull(hub.endpoint());
  BOOST_REQUIRE_MESSAGE(model, test::message_of(model));
  BOOST_TEST((text_of(model->path / "model.safetensors") == hub.sent["model.safetensors"]));
}

BOOST_AUTO_TEST_CASE(damaged_leftovers_are_thrown_away_and_fetched_again) {
  StubHub hub;
  std::filesystem::create_directories(partial());
  std::ofstream(partial() / "model.safetensors.part", std::ios::binary) << std::string(5000, 'x');
  std::ofstream(partial() / "tokenizer.json", std::ios::binary) << "[]";
  const auto model = pull(hub.endpoint());
  BOOST_REQUIRE_MESSAGE(model, test::message_of(model));
  BOOST_TEST((text_of(model->path / "model.safetensors") == hub.sent["model.safetensors"]));
  BOOST_TEST(text_of(model->path / "tokenizer.json") == "{}");
}

BOOST_AUTO_TEST_CASE(wrong_bytes_are_refused_by_either_hash_and_not_kept) {
  for (const char* name : {"model.safetensors", "tokenizer.json", "config.json"}) {
    StubHub hub;
    hub.sent[name].back() ^= 1;
    Fixture own;
    BOOST_TEST(code_of(own.pull(hub.endpoint())) == "checksum", name);
    BOOST_TEST(!std::filesystem::exists(own.partial() / (std::string(name) + ".part")), name);
    BOOST_TEST(own.store.list()->empty());
  }
  StubHub longer;
  longer.sent["tokenizer.json"] += "more";
  BOOST_TEST(!pull(longer.endpoint()));
}

BOOST_AUTO_TEST_CASE(no_access_and_not_there_are_told_apart) {
  for (const int status : {401, 403}) {
    StubHub gated(
        [&](const std::string&) { return http_answer(status, "{}", {"X-Error-Code: GatedRepo"}); });
    BOOST_TEST(code_of(pull(gated.endpoint())) == "auth");
    StubHub gated_files([&](const std::string& head) -> std::string {
      return is_weights(head) ? http_answer(status, "{}", {"X-Error-Code: GatedRepo"}) : "";
    });
    BOOST_TEST(code_of(pull(gated_files.endpoint())) == "auth");
    StubHub nothing([&](const std::string&) {
      return http_answer(status, "{}", {"X-Error-Code: RepoNotFound"});
    });
    BOOST_TEST(code_of(pull(nothing.endpoint())) == "not_found");
  }
  StubHub hub;
  BOOST_TEST(code_of(plan_pull(store, hub.endpoint(), {"org", "other", ""}, {})) == "not_found");
  HubEndpoint offline = hub.endpoint();
  offline.offline = true;
  const size_t before = hub.heads().size();
  BOOST_TEST(code_of(pull(offline)) == "offline");
  BOOST_TEST(hub.heads().size() == before);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_run_is_refused_before_it_is_fetched) {
  StubHub pickles;
  pickles.listed.erase("model.safetensors");
  BOOST_TEST(code_of(pull(pickles.endpoint())) == "not_runnable");
  StubHub other;
  other.listed["config.json"] = other.sent["config.json"] = R"({"architectures":["BertModel"]})";
  const auto refused = pull(other.endpoint());
  BOOST_TEST(test::message_of(refused).find("BertModel") != std::string::npos);
  BOOST_TEST(other.count(".safetensors") == 0U);
}

BOOST_AUTO_TEST_CASE(servers_that_fail_are_asked_again_but_not_for_ever) {
  std::atomic<int> n_asked = 0;
  StubHub shaky([&](const std::string& head) -> std::string {
    return is_weights(head) && ++n_asked <= 2 ? http_answer(503, "") : "";
  });
  BOOST_TEST(pull(shaky.endpoint()).has_value());
  Fixture other;
  StubHub broken([&](const std::string& head) -> std::string {
    return is_weights(head) ? http_answer(500, "") : "";
  });
  BOOST_TEST(code_of(other.pull(broken.endpoint())) == "server_error");
  BOOST_TEST(broken.count(".safetensors") == 3U);
}

BOOST_AUTO_TEST_CASE(a_disk_that_would_lose_its_reserve_is_left_alone) {
  StubHub hub;
  auto plan = plan_pull(store, hub.endpoint(), kTiny, {});
  BOOST_REQUIRE(plan);
  plan->disk = {plan->bytes_missing + 99, 100};
  BOOST_TEST(code_of(run_pull(store, hub.endpoint(), *plan, hooks, clock)) == "no_space");
  plan->disk = {plan->bytes_missing + 100, 100};
  BOOST_TEST(run_pull(store, hub.endpoint(), *plan, hooks, clock).has_value());
}

BOOST_AUTO_TEST_CASE(cancelling_keeps_what_came) {
  StubHub hub;
  int64_t done = 0;
  hooks.progress = [&](const PullProgress& progress) { done = progress.bytes_done; };
  hooks.cancelled = [&] { return done > 10'000; };
  const auto ended = pull(hub.endpoint());
  BOOST_TEST(code_of(ended) == "cancelled");
  const auto left = store.partials();
  BOOST_REQUIRE(left->size() == 1U);
  BOOST_TEST(left->front().repo == "org/tiny");
  BOOST_TEST(left->front().bytes > 0);
  hooks.cancelled = {};
  BOOST_TEST(pull(hub.endpoint()).has_value());
}

BOOST_AUTO_TEST_CASE(two_pulls_of_one_model_do_not_mix) {
  StubHub hub;
  const auto staging = store.stage(kTiny, kCommit);
  BOOST_REQUIRE(staging);
  BOOST_TEST(code_of(pull(hub.endpoint())) == "model_busy");
  BOOST_TEST(*store.remove_partials("") == 0);
}

BOOST_AUTO_TEST_CASE(a_listing_without_hashes_or_with_other_paths_is_refused) {
  const auto parsed = [](std::string siblings) {
    return parse_listing(R"({"sha":")" + kCommit + R"(","siblings":[)" + siblings + "]}", kTiny);
  };
  BOOST_TEST(code_of(parsed(R"({"rfilename":"config.json","size":3})")) == "bad_listing");
  BOOST_TEST(code_of(parsed(R"({"rfilename":"config.json","blobId":")" + kCommit + R"("})")) ==
             "bad_listing");
  BOOST_TEST(code_of(parse_listing(R"({"sha":"../../x","siblings":[]})", kTiny)) == "bad_listing");
  BOOST_TEST(code_of(parse_listing("<html>", kTiny)) == "bad_listing");
  const auto outside = parsed(R"({"rfilename":"../config.json","size":3,"blobId":"x"})");
  BOOST_REQUIRE(outside);
  BOOST_TEST(code_of(runnable_files(outside->files)) == "not_runnable");
  for (const char* name : {"x/config.json", "../model.safetensors", "model-1-of-2.bin",
                           "model--of-.safetensors", "adapter_model.safetensors", "a.py", ""})
    BOOST_TEST(!is_runnable_file(name), name);
}

BOOST_AUTO_TEST_CASE(the_environment_names_hub_and_token) {
  const std::map<std::string, const char*> values = {
      {"HF_ENDPOINT", "http://mirror:8/"}, {"HF_TOKEN", "t"}, {"HF_HUB_OFFLINE", "True"}};
  const auto endpoint = hub_endpoint([&](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second;
  });
  BOOST_TEST(endpoint.url == "http://mirror:8");
  BOOST_TEST(endpoint.token == "t");
  BOOST_TEST(endpoint.offline);
  BOOST_TEST(hub_endpoint([](const char*) -> const char* { return nullptr; }).url ==
             "https://huggingface.co");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
