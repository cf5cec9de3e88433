// An engine over the fake model, driven by its wake-ups, with sinks that record everything.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/fakes.h"

namespace hs::test {

struct ChoiceRecord {
  std::string text;
  std::vector<TokenLogprob> logprobs;
  int32_t n_tokens = 0;
  std::optional<FinishReason> finish;
  std::string stop;
};

class RecordingSink final : public RequestSink {
 public:
  void on_prompt_cached(int32_t n_tokens) override;
  void on_prompt_logprobs(std::vector<TokenLogprob> logprobs) override;
  void on_text(int32_t choice, std::string_view text, std::vector<TokenLogprob> logprobs,
               int32_t n_tokens) override;
  void on_choice_finished(int32_t choice, FinishReason reason, std::string_view stop) override;
  void on_done(const RequestUsage& its_usage, const RequestTimings& its_timings,
               const Error* its_error) override;
  bool done() const { return n_done > 0; }

  std::map<int32_t, ChoiceRecord> choices;
  int n_done = 0;
  int32_t n_prompt_cached = 0;
  std::vector<TokenLogprob> prompt_logprobs;
  RequestUsage usage;
  RequestTimings timings;
  std::optional<Error> error;
  std::vector<std::string> faults;  // calls that break the contract
  std::function<void()> after_text;
};

// Wake-ups from any thread; waiting ends with one or at the deadline.
class WakeUp {
 public:
  void notify();
  bool wait();  // false after 30 seconds without one

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

EngineConfig small_config();

// Of a random test: HS_TEST_SEED from the environment, to run a failure again, or a fresh one.
uint32_t test_seed();

// Towers on the vision device, language models on the other; one device for both serves whole
// requests there.
EngineTopology topology_of(FakeModel& fake, Device& vision_device, Device& language_device);

struct EngineFixture {
  explicit EngineFixture(const EngineConfig& config = small_config(), bool two_devices = false,
                         bool with_vision = true, int32_t n_axes = 1, int32_t block_size = 4);
  ~EngineFixture();

  std::shared_ptr<RecordingSink> submit(GenerateRequest request);
  RequestId last_id = 0;
  // Polls until the condition holds; fails the test when nothing happens for long.
  void run_until(const std::function<bool()>& condition);
  void run_until_idle();

  SystemClock clock;
  FakeDevice device0{0};
  FakeDevice device1{1};
  FakeModel fake;
  WakeUp wake;
  std::unique_ptr<Engine> engine;
};

GenerateRequest make_request(Prompt prompt, int32_t max_tokens, float temperature = 0,
                             uint64_t seed = 1);
// What the request's choice must give, from the fake model's known tokens.
ChoiceRecord expected_choice(const GenerateRequest& request, int32_t choice, int32_t max_tokens,
                             int32_t n_axes = 1);
// Compares all choices of a finished request with what they must be.
void check_result(const GenerateRequest& request, const RecordingSink& sink,
                  const std::string& context = "", int32_t n_axes = 1);

}  // namespace hs::test
