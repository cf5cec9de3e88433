// The shipped demo models on the CPU device: a request gives the same tokens alone, in a batch, in
// chunks, preempted, from the caches and between two devices, cut before or after the projector, in
// float32 and in bfloat16.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "device/cpu/cpu_device.h"
#include "engine/engine_fixture.h"
#include "grammar/grammar_cache.h"
#include "media/image.h"
#include "support/source_dir.h"

using namespace hs;
using namespace hs::test;

namespace {

const std::filesystem::path kDemo = std::filesystem::path(source_dir()) / "models/demo";

struct DemoModel {
  // `n_ranks` devices share the language model.
  explicit DemoModel(DType dtype, bool two_devices = false, const char* name = "llava",
                     CutChoice cut = CutChoice::kPost, int32_t n_ranks = 1) {
    auto first = make_cpu_device({.index = 0, .threads = 1});
    auto second = make_cpu_device({.index = 1, .threads = 1});
    BOOST_REQUIRE(first && second);
    vision_device = std::move(*first);
    other_device = std::move(*second);
    language_device = two_devices ? other_device.get() : vision_device.get();
    std::vector<Device*> ranks{language_device};
    for (int32_t rank = 1; rank < n_ranks; ++rank) {
      auto one = make_cpu_device({.index = 1 + rank, .threads = 1});
      BOOST_REQUIRE(one);
      ranks.push_back(rank_devices.emplace_back(std::move(*one)).get());
    }
    placement = place({vision_device.get()}, ranks,
                      two_devices || n_ranks > 1 ? Partition::kModality : Partition::kColocated,
                      false, n_ranks);
    auto loaded = load_model({.path = kDemo / name,
                              .dtype = dtype,
                              .cut = cut,
                              .vision_devices = placement.tower_devices,
                              .language_devices = placement.language_devices});
    BOOST_REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().message));
    model = std::move(*loaded);
  }

  GenerateRequest ask(const std::string& picture, const std::string& question) const {
    ChatInput chat;
    ChatMessage& message = chat.messages.emplace_back();
    message.role = "user";
    std::vector<std::shared_ptr<const ImagePatches>> images;
    if (!picture.empty()) {
      message.parts.push_back({ChatPart::Kind::kImage, ""});
      std::ifstream file(kDemo / "examples" / picture, std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      const auto image = decode_image(std::as_bytes(std::span(bytes)), {});
      BOOST_REQUIRE_MESSAGE(image, (image ? "" : image.error().message));
      auto patches = model.prompts->preprocess(*image, {});
      BOOST_REQUIRE(patches);
      images.push_back(std::make_shared<ImagePatches>(std::move(*patches)));
    }
    message.parts.push_back({ChatPart::Kind::kText, question});
    auto prompt = model.prompts->chat(chat, std::move(images));
    BOOST_REQUIRE_MESSAGE(prompt, (prompt ? "" : prompt.error().message));
    return make_request(std::move(*prompt), 40);
  }

  EngineTopology topology() { return make_topology(model, placement); }

  std::unique_ptr<Device> vision_device;
  std::unique_ptr<Device> other_device;
  Device* language_device = nullptr;
  std::vector<std::unique_ptr<Device>> rank_devices;
  Placement placement;
  Model model;
};

struct DemoRun {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  EngineStats stats;
};

// All requests in one engine, `at_once` of them at a time.
DemoRun run_all(DemoModel& demo, const std::vector<GenerateRequest>& requests,
                const EngineConfig& config, size_t at_once) {
  WakeUp wake;
  const SystemClock clock;
  auto engine = Engine::create(demo.model, demo.topology(), config, clock, [&] { wake.notify(); });
  BOOST_REQUIRE_MESSAGE(engine, (engine ? "" : engine.error().message));
  DemoRun run;
  for (size_t first = 0; first < requests.size(); first += at_once) {
    for (size_t i = first; i < std::min(first + at_once, requests.size()); ++i) {
      run.sinks.push_back(std::make_shared<RecordingSink>());
      BOOST_REQUIRE((*engine)->submit(requests[i], run.sinks.back()));
    }
    for (;;) {
      (*engine)->poll();
      if ((*engine)->idle()) break;
      BOOST_REQUIRE_MESSAGE(wake.wait(), "the engine stands still");
    }
  }
  run.stats = (*engine)->stats();
  BOOST_TEST(run.stats.kv_blocks_used == 0);
  return run;
}

void check_same(const DemoRun& got, const DemoRun& want, const std::string& how) {
  BOOST_TEST_CONTEXT(how) {
    for (size_t i = 0; i < want.sinks.size(); ++i) {
      BOOST_TEST_CONTEXT("request " << i) {
        BOOST_TEST(!got.sinks[i]->error);
        for (const auto& [choice, wanted] : want.sinks[i]->choices) {
          const ChoiceRecord& record = got.sinks[i]->choices[choice];
          BOOST_TEST(record.text == wanted.text);
          BOOST_TEST((record.finish == wanted.finish));
          BOOST_REQUIRE_EQUAL(record.logprobs.size(), wanted.logprobs.size());
          for (size_t t = 0; t < wanted.logprobs.size(); ++t) {
            BOOST_TEST(record.logprobs[t].id == wanted.logprobs[t].id);
            BOOST_TEST(record.logprobs[t].logprob == wanted.logprobs[t].logprob);
          }
        }
      }
    }
  }
}

EngineConfig demo_config() {
  return {.max_num_seqs = 16,
          .max_num_batched_tokens = 512,
          .kv_blocks = 512,
          .embedding_cache_rows = 1024,
          .prefix_cache = false};
}

std::vector<GenerateRequest> sixteen_requests(const DemoModel& demo) {
  const char* pictures[] = {"picture1.png", "picture2.jpg", "picture3.png", ""};
  const char* questions[] = {"What is in the picture?", "What do you see?"};
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 16; ++i) {
    GenerateRequest request = demo.ask(pictures[i % 4], questions[i / 4 % 2]);
    request.temperature = i < 8 ? 0.0F : 1.0F;
    request.seed = i;
    request.n_logprobs = 2;
    request.ignore_eos = i % 3 == 0;
    request.n_choices = i == 9 ? 3 : 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

// Each picture once.
int64_t rows_of_pictures(const std::vector<GenerateRequest>& requests) {
  std::map<uint64_t, int64_t> rows;
  for (const GenerateRequest& request : requests) {
    for (size_t i = 0; i < request.prompt.images.size(); ++i) {
      rows[request.prompt.images[i]->content_hash[0]] = request.prompt.spans[i].count;
    }
  }
  int64_t sum = 0;
  for (const auto& [picture, n] : rows) sum += n;
  return sum;
}

// `few_blocks`: of a KV cache that has no room for all requests at once.
void check_every_way(DType dtype, const char* name, int32_t few_blocks) {
  DemoModel demo(dtype, false, name);
  const std::vector<GenerateRequest> requests = sixteen_requests(demo);
  const DemoRun alone = run_all(demo, requests, demo_config(), 1);
  for (const auto& sink : alone.sinks) BOOST_REQUIRE(!sink->error);

  check_same(run_all(demo, requests, demo_config(), 16), alone, "batched");

  EngineConfig chunked = demo_config();
  chunked.max_num_batched_tokens = 27;
  check_same(run_all(demo, requests, chunked, 16), alone, "chunked");

  EngineConfig cached = demo_config();
  cached.prefix_cache = true;
  const DemoRun from_caches = run_all(demo, requests, cached, 4);
  check_same(from_caches, alone, "prefix cache");
  BOOST_TEST(from_caches.stats.prefix_hits > 0);

  EngineConfig small = demo_config();
  small.kv_blocks = few_blocks;
  small.embedding_cache_rows = 128;
  const DemoRun preempted = run_all(demo, requests, small, 16);
  check_same(preempted, alone, "preempted");
  BOOST_TEST(preempted.stats.preemptions > 0);

  DemoModel split(dtype, true, name);
  check_same(run_all(split, requests, demo_config(), 16), alone, "two devices");
  for (const bool two_devices : {true, false}) {
    DemoModel pre(dtype, two_devices, name, CutChoice::kPre);
    const DemoRun run = run_all(pre, requests, demo_config(), 16);
    check_same(run, alone, "cut before the projector");
    BOOST_TEST(run.stats.transfer_bytes ==
               (two_devices ? rows_of_pictures(requests) * pre.model.spec.feature_dim * 4 : 0));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(engine_demo_tests)

BOOST_AUTO_TEST_CASE(the_demo_answers_about_its_pictures) {
  DemoModel demo(DType::kF32);
  const std::vector<GenerateRequest> requests{demo.ask("picture1.png", "What is in the picture?"),
                                              demo.ask("picture1.png", "What is the red shape?")};
  const DemoRun run = run_all(demo, requests, demo_config(), 2);
  BOOST_TEST(run.sinks[0]->choices[0].text == "A red circle.");
  BOOST_TEST(run.sinks[1]->choices[0].text == "The red shape is a circle.");
  BOOST_TEST((run.sinks[0]->choices[0].finish == FinishReason::kStop));
  BOOST_TEST(run.sinks[0]->usage.image_tokens == 64);
  BOOST_TEST(run.stats.images_encoded == 1);
}

BOOST_AUTO_TEST_CASE(tokens_do_not_depend_on_the_company_in_float32) {
  check_every_way(DType::kF32, "llava", 24);
}

BOOST_AUTO_TEST_CASE(tokens_do_not_depend_on_the_company_in_bfloat16) {
  check_every_way(DType::kBF16, "llava", 24);
}

// Three position axes, whose offset to the token count decode must keep, also for a prompt whose
// beginning comes from the prefix cache.
BOOST_AUTO_TEST_CASE(tokens_do_not_depend_on_the_company_with_pictures_of_many_sizes) {
  check_every_way(DType::kF32, "qwen2_5_vl", 12);
}

// Each way has the bits of the others, and the texts are those of one device: sums in another order
// move logits by less than what lies between two tokens.
BOOST_AUTO_TEST_CASE(devices_that_share_the_language_model_give_one_devices_tokens) {
  struct Shared {
    const char* name;
    int32_t n_ranks;
    int32_t few_blocks;
  };
  const Shared models[] = {{"llava", 2, 24}, {"llava", 3, 24}, {"qwen2_5_vl", 2, 12}};
  for (const auto& [name, n_ranks, few_blocks] : models) {
    BOOST_TEST_CONTEXT(name << " on " << n_ranks << " devices") {
      DemoModel one(DType::kF32, false, name);
      DemoModel shared(DType::kF32, true, name, CutChoice::kPost, n_ranks);
      const std::vector<GenerateRequest> requests = sixteen_requests(one);
      const DemoRun expected = run_all(one, requests, demo_config(), 16);
      const DemoRun batched = run_all(shared, requests, demo_config(), 16);
      for (size_t i = 0; i < requests.size(); ++i) {
        BOOST_TEST(!batched.sinks[i]->error);
        for (const auto& [choice, wanted] : expected.sinks[i]->choices) {
          BOOST_TEST(batched.sinks[i]->choices[choice].text == wanted.text, "request " << i);
        }
      }
      BOOST_TEST(batched.stats.all_reduce_bytes > 0);
      BOOST_TEST(expected.stats.all_reduce_bytes == 0);

      EngineConfig other = demo_config();
      other.prefix_cache = true;
      other.kv_blocks = few_blocks;
      other.max_num_batched_tokens = 50;
      const DemoRun otherwise = run_all(shared, requests, other, 16);
      check_same(otherwise, batched, "in chunks, preempted, from the prefix cache");
      BOOST_TEST(otherwise.stats.preemptions > 0);
    }
  }
}

// Each setting is checked against the answer without it, "A red circle.".
BOOST_AUTO_TEST_CASE(settings_of_a_request_steer_its_tokens) {
  DemoModel demo(DType::kF32);
  const Tokenizer& tokenizer = demo.model.prompts->tokenizer();
  GenerateRequest plain = demo.ask("picture1.png", "What is in the picture?");
  plain.n_logprobs = 0;
  std::vector<GenerateRequest> requests(8, plain);
  const auto ids = tokenizer.encode("A red circle.", {.add_special_tokens = false, .literal = {}});
  requests[1].min_tokens = 20;
  requests[2].allowed_token_ids = {ids.front(), demo.model.spec.eos_ids.front()};
  requests[2].max_tokens = 5;
  requests[3].bad_words = {{ids[0], ids[1]}};
  requests[4].logit_bias = {{ids.front(), -100}};
  requests[5].stops = {"circle"};
  requests[5].include_stop = true;
  requests[6].stop_token_ids = {ids[1]};
  requests[6].include_stop = true;
  requests[7].stops = {"circle"};
  requests[7].min_tokens = static_cast<int32_t>(ids.size());
  const DemoRun run = run_all(demo, requests, demo_config(), 8);
  const auto choice = [&](size_t i) { return run.sinks[i]->choices[0]; };
  BOOST_TEST(choice(0).text == "A red circle.");
  BOOST_TEST(choice(1).n_tokens >= 20);
  BOOST_TEST(choice(1).text.starts_with("A red circle."));
  for (const TokenLogprob& token : choice(2).logprobs) BOOST_TEST(token.id == ids.front());
  BOOST_TEST(choice(2).n_tokens == 5);
  BOOST_TEST(choice(3).logprobs[0].id == ids[0]);
  BOOST_TEST(choice(3).logprobs[1].id != ids[1]);
  BOOST_TEST(choice(4).logprobs[0].id != ids[0]);
  BOOST_TEST(choice(5).text == "A red circle");
  BOOST_TEST(choice(5).stop == "circle");
  BOOST_TEST(choice(6).text == "A" + tokenizer.token_bytes(ids[1]));
  BOOST_TEST((choice(6).finish == FinishReason::kStop));
  BOOST_TEST(choice(7).text == "A red circle.");  // the stop came too early to count
  for (const auto& sink : run.sinks) BOOST_TEST(sink->faults.empty());
}

// What a prompt's tokens are given is, bit for bit, what they were given as an answer: in one
// piece, in chunks and preempted, whatever the prefix cache holds.
BOOST_AUTO_TEST_CASE(a_scored_prompt_has_the_logprobs_of_the_answer_it_holds) {
  DemoModel demo(DType::kF32);
  GenerateRequest ask = demo.ask("picture1.png", "What is in the picture?");
  ask.n_logprobs = 3;
  ask.max_tokens = 12;
  ask.ignore_eos = true;
  ask.skip_special_tokens = false;
  const DemoRun answer = run_all(demo, {ask}, demo_config(), 1);
  const auto& said = answer.sinks[0]->choices[0].logprobs;
  BOOST_REQUIRE_EQUAL(said.size(), 12U);

  GenerateRequest scored = ask;
  for (const TokenLogprob& token : said) {
    scored.prompt.positions.push_back(static_cast<int32_t>(scored.prompt.token_ids.size()));
    scored.prompt.token_ids.push_back(token.id);
  }
  scored.n_prompt_logprobs = 3;
  scored.max_tokens = 0;
  scored.only_prompt = true;
  EngineConfig chunked = demo_config();
  chunked.max_num_batched_tokens = 27;
  chunked.prefix_cache = true;
  EngineConfig small = chunked;
  small.kv_blocks = 16;
  small.embedding_cache_rows = 128;
  for (const EngineConfig& config : {demo_config(), chunked, small}) {
    const DemoRun run = run_all(demo, {ask, scored, scored, ask}, config, 4);
    for (const size_t i : {1U, 2U}) {
      const RecordingSink& sink = *run.sinks[i];
      BOOST_REQUIRE_EQUAL(sink.prompt_logprobs.size(), scored.prompt.token_ids.size() - 1);
      const size_t before = sink.prompt_logprobs.size() - said.size();
      for (size_t t = 0; t < said.size(); ++t) {
        const TokenLogprob& token = sink.prompt_logprobs[before + t];
        BOOST_TEST(token.id == said[t].id);
        BOOST_TEST(token.logprob == said[t].logprob);
        BOOST_TEST((token.top == said[t].top));
      }
      BOOST_TEST(sink.usage.completion_tokens == 0);
      BOOST_TEST(sink.choices.at(0).text.empty());
      BOOST_TEST((sink.choices.at(0).finish == FinishReason::kLength));
      BOOST_TEST(sink.faults.empty());
    }
    BOOST_TEST(run.sinks[3]->choices[0].text == answer.sinks[0]->choices[0].text);
  }
}

BOOST_AUTO_TEST_CASE(prompts_of_another_salt_are_not_found_in_the_caches) {
  DemoModel demo(DType::kF32);
  EngineConfig config = demo_config();
  config.prefix_cache = true;
  std::vector<GenerateRequest> requests(4, demo.ask("picture1.png", "What is in the picture?"));
  requests[1].cache_salt = requests[3].cache_salt = 77;
  const DemoRun run = run_all(demo, requests, config, 1);
  BOOST_TEST(run.sinks[1]->usage.cached_tokens == 0);
  BOOST_TEST(run.sinks[2]->usage.cached_tokens > 0);
  BOOST_TEST(run.sinks[3]->usage.cached_tokens == run.sinks[2]->usage.cached_tokens);
  BOOST_TEST(run.stats.images_encoded == 2);
  for (const auto& sink : run.sinks) BOOST_TEST(sink->choices[0].text == "A red circle.");
}

// Alone, beside others, in chunks and after preemption the same text of the form comes out.
BOOST_AUTO_TEST_CASE(texts_stay_inside_the_grammar_of_their_request) {
  DemoModel demo(DType::kF32);
  const Tokenizer& tokenizer = demo.model.prompts->tokenizer();
  std::vector<std::string> bytes(static_cast<size_t>(demo.model.spec.vocab_size));
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    if (!tokenizer.is_special(id)) bytes[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
  }
  GrammarCache grammars(bytes, demo.model.spec.eos_ids, tokenizer.strips_leading_space());
  GenerateRequest request = demo.ask("picture1.png", "What is in the picture?");
  request.grammar = *grammars.get(
      Grammar::Language::kJsonSchema,
      R"({"type":"object","properties":{"shape":{"type":"string","maxLength":8},"n":{"type":"integer","maximum":99}},"required":["shape","n"]})",
      true);
  request.n_choices = 3;
  request.temperature = 1.5F;
  request.seed = 4;
  request.max_tokens = 90;
  GenerateRequest free = demo.ask("picture2.jpg", "What is in the picture?");
  EngineConfig small = demo_config();
  small.max_num_batched_tokens = 27;
  small.kv_blocks = 24;
  const DemoRun alone = run_all(demo, {request}, demo_config(), 1);
  for (const EngineConfig& config : {demo_config(), small}) {
    const DemoRun beside = run_all(demo, {free, request, request, free}, config, 4);
    for (const size_t i : {1U, 2U}) {
      for (int32_t choice = 0; choice < 3; ++choice) {
        const std::string& text = beside.sinks[i]->choices[choice].text;
        BOOST_TEST(text == alone.sinks[0]->choices[choice].text);
        BOOST_TEST(text.starts_with("{"));
        BOOST_TEST(text.ends_with("}"));
        BOOST_TEST((beside.sinks[i]->choices[choice].finish == FinishReason::kStop));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_grammar_that_the_allowed_tokens_cannot_follow_is_refused) {
  DemoModel demo(DType::kF32);
  const Tokenizer& tokenizer = demo.model.prompts->tokenizer();
  std::vector<std::string> bytes(static_cast<size_t>(demo.model.spec.vocab_size));
  for (int32_t id = 0; id < tokenizer.size(); ++id)
    bytes[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
  GrammarCache grammars(bytes, demo.model.spec.eos_ids, false);
  GenerateRequest request = demo.ask("picture1.png", "What is in the picture?");
  request.grammar = *grammars.get(Grammar::Language::kChoice, R"(["yes"])", true);
  request.allowed_token_ids = {demo.model.spec.eos_ids.front()};
  WakeUp wake;
  const SystemClock clock;
  auto engine =
      Engine::create(demo.model, demo.topology(), demo_config(), clock, [&] { wake.notify(); });
  BOOST_REQUIRE(engine);
  const auto refused = (*engine)->submit(request, std::make_shared<RecordingSink>());
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().code == "unsatisfiable_format");
}

BOOST_AUTO_TEST_CASE(pictures_beyond_the_towers_work_area_wait_for_the_next_call) {
  DemoModel demo(DType::kF32, false, "qwen2_5_vl");
  std::vector<GenerateRequest> requests;
  for (const char* picture : {"picture1.png", "picture2.jpg", "picture3.png", "picture4.jpg"}) {
    requests.push_back(demo.ask(picture, "What is in the picture?"));
  }
  const DemoRun together = run_all(demo, requests, demo_config(), 4);
  const int64_t rows = demo.model.spec.max_encode_rows;
  demo.model.spec.max_encode_rows = 60;  // one picture of these at a time
  const DemoRun apart = run_all(demo, requests, demo_config(), 4);
  check_same(apart, together, "one at a time");
  BOOST_TEST(apart.stats.images_encoded == 4);

  demo.model.spec.max_encode_rows = 10;
  WakeUp wake;
  const SystemClock clock;
  auto engine =
      Engine::create(demo.model, demo.topology(), demo_config(), clock, [&] { wake.notify(); });
  BOOST_REQUIRE(engine);
  const auto refused = (*engine)->submit(requests[0], std::make_shared<RecordingSink>());
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == ErrorKind::kTooLarge));
  BOOST_TEST(refused.error().code == "image_too_large");
  demo.model.spec.max_encode_rows = rows;
}

BOOST_AUTO_TEST_SUITE_END()
