#include "engine/engine_fixture.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <random>

#include "engine/choice_output.h"

namespace hs::test {

void RecordingSink::on_prompt_cached(int32_t n_tokens) {
  if (!choices.empty() || n_prompt_cached != 0)
    faults.push_back("cached tokens told late or twice");
  n_prompt_cached = n_tokens;
}

void RecordingSink::on_prompt_logprobs(std::vector<TokenLogprob> logprobs) {
  if (!choices.empty() || !prompt_logprobs.empty())
    faults.push_back("prompt logprobs told late or twice");
  prompt_logprobs = std::move(logprobs);
}

void RecordingSink::on_text(int32_t choice, std::string_view text,
                            std::vector<TokenLogprob> logprobs, int32_t n_tokens) {
  ChoiceRecord& record = choices[choice];
  if (done() || record.finish) faults.push_back("text after the end");
  record.text += text;
  for (TokenLogprob& logprob : logprobs) record.logprobs.push_back(std::move(logprob));
  record.n_tokens = n_tokens;
  if (after_text) after_text();
}

void RecordingSink::on_choice_finished(int32_t choice, FinishReason reason, std::string_view stop) {
  ChoiceRecord& record = choices[choice];
  if (done() || record.finish) faults.push_back("choice finished twice");
  record.finish = reason;
  record.stop = stop;
}

void RecordingSink::on_done(const RequestUsage& its_usage, const RequestTimings& its_timings,
                            const Error* its_error) {
  if (++n_done > 1) faults.push_back("done twice");
  usage = its_usage;
  timings = its_timings;
  if (its_error != nullptr) error = *its_error;
}

void WakeUp::notify() {
  const std::lock_guard lock(mutex_);
  set_ = true;
  changed_.notify_all();
}

bool WakeUp::wait() {
  std::unique_lock lock(mutex_);
  const bool woken = changed_.wait_for(lock, std::chrono::seconds(30), [this] { return set_; });
  set_ = false;
  return woken;
}

uint32_t test_seed() {
  const char* given = std::getenv("HS_TEST_SEED");
  return given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                          : std::random_device{}();
}

EngineConfig small_config() {
  return {.max_num_seqs = 8,
          .max_num_batched_tokens = 16,
          .kv_blocks = 256,
          .max_queue = 64,
          .max_encode_images = 3,
          .embedding_cache_rows = 64};
}

EngineTopology topology_of(FakeModel& fake, Device& vision_device, Device& language_device) {
  if (&vision_device == &language_device) return make_topology(fake.model, vision_device);
  return make_topology(fake.model,
                       place({&vision_device}, {&language_device}, Partition::kModality, false));
}

EngineFixture::EngineFixture(const EngineConfig& config, bool two_devices, bool with_vision,
                             int32_t n_axes, int32_t block_size)
    : fake(device0, two_devices ? device1 : device0, block_size, with_vision, n_axes) {
  auto made =
      Engine::create(fake.model, topology_of(fake, device0, two_devices ? device1 : device0),
                     config, clock, [this] { wake.notify(); });
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  engine = std::move(*made);
}

EngineFixture::~EngineFixture() {
  fake.language->gate.open();
  if (fake.vision != nullptr) fake.vision->gate.open();
}

std::shared_ptr<RecordingSink> EngineFixture::submit(GenerateRequest request) {
  auto sink = std::make_shared<RecordingSink>();
  const Result<RequestId> id = engine->submit(std::move(request), sink);
  BOOST_REQUIRE_MESSAGE(id.has_value(), (id ? "" : id.error().message));
  last_id = *id;
  return sink;
}

void EngineFixture::run_until(const std::function<bool()>& condition) {
  for (;;) {
    engine->poll();
    if (condition()) return;
    BOOST_REQUIRE_MESSAGE(wake.wait(), "the engine stands still");
  }
}

void EngineFixture::run_until_idle() {
  run_until([this] { return engine->idle(); });
  const EngineStats stats = engine->stats();
  BOOST_TEST(stats.running == 0);
  BOOST_TEST(stats.waiting == 0);
  BOOST_TEST(stats.kv_blocks_used == 0);
}

GenerateRequest make_request(Prompt prompt, int32_t max_tokens, float temperature, uint64_t seed) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.temperature = temperature;
  request.seed = seed;
  return request;
}

ChoiceRecord expected_choice(const GenerateRequest& request, int32_t choice, int32_t max_tokens,
                             int32_t n_axes) {
  const FakeTokenizer tokenizer;
  OutputRules rules{.stop_ids = request.stop_token_ids,
                    .stops = request.stops,
                    .max_tokens = max_tokens,
                    .n_logprobs = request.n_logprobs,
                    .skip_special_tokens = request.skip_special_tokens};
  if (!request.ignore_eos) rules.stop_ids.push_back(kEos);
  std::ranges::sort(rules.stop_ids);
  ChoiceOutput output(tokenizer, rules);
  ChoiceRecord record;
  for (const SampledToken& token : expected_tokens(request, choice, max_tokens, n_axes)) {
    ChoiceOutput::Delta delta = output.push(token);
    record.text += delta.text;
    for (TokenLogprob& logprob : delta.logprobs) record.logprobs.push_back(std::move(logprob));
    record.n_tokens = output.n_tokens();
    record.finish = delta.finish;
    record.stop = delta.stop;
    if (delta.finish) break;
  }
  return record;
}

void check_result(const GenerateRequest& request, const RecordingSink& sink,
                  const std::string& context, int32_t n_axes) {
  BOOST_TEST_CONTEXT(context) {
    BOOST_TEST(sink.n_done == 1);
    BOOST_TEST(sink.faults.empty());
    BOOST_TEST(!sink.error, (sink.error ? sink.error->message : ""));
    BOOST_TEST(sink.choices.size() == static_cast<size_t>(request.n_choices));
    int32_t n_tokens = 0;
    for (int32_t choice = 0; choice < request.n_choices; ++choice) {
      const ChoiceRecord want = expected_choice(request, choice, request.max_tokens, n_axes);
      const auto it = sink.choices.find(choice);
      BOOST_REQUIRE(it != sink.choices.end());
      const ChoiceRecord& got = it->second;
      BOOST_TEST(got.text == want.text);
      BOOST_TEST((got.finish == want.finish));
      BOOST_TEST(got.stop == want.stop);
      BOOST_TEST(got.n_tokens == want.n_tokens);
      BOOST_REQUIRE_EQUAL(got.logprobs.size(), want.logprobs.size());
      for (size_t i = 0; i < got.logprobs.size(); ++i) {
        BOOST_TEST(got.logprobs[i].id == want.logprobs[i].id);
        BOOST_TEST(got.logprobs[i].logprob == want.logprobs[i].logprob);
        BOOST_TEST((got.logprobs[i].top == want.logprobs[i].top));
      }
      n_tokens += want.n_tokens;
    }
    BOOST_TEST(sink.usage.completion_tokens == n_tokens);
    BOOST_TEST(sink.usage.prompt_tokens == static_cast<int32_t>(request.prompt.token_ids.size()));
    int32_t n_image_tokens = 0;
    for (const ImageSpan& span : request.prompt.spans) n_image_tokens += span.count;
    BOOST_TEST(sink.usage.image_tokens == n_image_tokens);
  }
}

}  // namespace hs::test
