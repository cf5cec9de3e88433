// Proves that answers do not depend on when the devices work: 200 orders of whatever the CUDA API
// leaves open, drawn from seeds, on a 4090 and an A100 without peer access, in turn as two tiers,
// with stealing, and with a language model that both share. HS_INTERLEAVINGS tries more of them.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "cuda/serving.h"
#include "cuda/tiny_checkpoint.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;
using cuda_emu::Order;

// All prompts together fit a step of few rows: wherever a request runs, beside whatever others, its
// kernels and thus its bits are the same.
constexpr int32_t kStepTokens = 16;

struct Outcome {
  std::vector<std::string> texts;
  int64_t steals = 0;
};

Outcome serve(const std::filesystem::path& model, Use use, cuda_emu::MachineSpec spec) {
  FakeMachine machine(std::move(spec));
  Outcome outcome;
  {
    // One sequence at a time leaves something to steal.
    const int32_t n_seqs = use == Use::kStealing ? 1 : 4;
    auto serving = Serving::start(
        {.use = use, .model = model, .max_step_tokens = kStepTokens, .max_num_seqs = n_seqs});
    BOOST_REQUIRE_MESSAGE(serving.has_value(), message_of(serving));
    const auto before = machine.counters();
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int32_t i = 0; i < 3; ++i) {
      sinks.push_back(
          (*serving)->ask(tiny_prompt((*serving)->model(), i == 0 ? 5 : 3, i, i == 0), 4));
    }
    BOOST_REQUIRE_MESSAGE((*serving)->run(), "the engine stands still");
    for (const auto& sink : sinks) {
      BOOST_REQUIRE_MESSAGE(!sink->error, (sink->error ? sink->error->message : ""));
      outcome.texts.push_back(sink->choices[0].text);
    }
    outcome.steals = (*serving)->engine().stats().steals;
    const auto after = machine.counters();
    BOOST_TEST(after.allocations == before.allocations, "allocated while serving");
    BOOST_TEST(after.pageable_async_copies == before.pageable_async_copies);
    BOOST_TEST(after.driver_staged_copies == 0U);
  }
  check_clean(machine);
  return outcome;
}

uint64_t n_interleavings() {
  const char* const wanted = std::getenv("HS_INTERLEAVINGS");
  return wanted == nullptr ? 200 : std::strtoull(wanted, nullptr, 10);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(interleavings_cuda_tests)

BOOST_AUTO_TEST_CASE(every_interleaving_of_two_cards_gives_the_same_answers) {
  const TempDir dir;
  write_tiny_llava(dir.path());
  constexpr Use kUses[] = {Use::kTwoTiers, Use::kStealing, Use::kShared};
  std::map<Use, std::vector<std::string>> wanted;
  for (const Use use : {Use::kOneCard, Use::kShared}) {
    auto spec = two_cards(1);
    spec.order = Order::kEager;
    wanted[use] = serve(dir.path(), use, spec).texts;
  }
  BOOST_TEST(std::ranges::count(wanted[Use::kOneCard], "") == 0);
  // Parts of a sum are added up in another order than the whole.
  wanted[Use::kTwoTiers] = wanted[Use::kStealing] = wanted[Use::kOneCard];
  int64_t steals = 0;
  for (uint64_t seed = 1; seed <= n_interleavings(); ++seed) {
    const Use use = kUses[seed % std::size(kUses)];
    BOOST_TEST_CONTEXT("seed " << seed) {
      const Outcome outcome = serve(dir.path(), use, two_cards(seed));
      BOOST_TEST(outcome.texts == wanted[use]);
      steals += outcome.steals;
    }
  }
  BOOST_TEST(steals > 0);
  BOOST_TEST_MESSAGE(steals << " requests were stolen");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
