// Proves that recorded decode steps give the tokens of steps that are called op by op, at every
// batch size from 18 down to 1, and that they are recorded once a shape.
#include "cuda/backend_testing.h"
#include "model/golden_cases.h"
#include "model/step_runner.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;

constexpr int32_t kSequences = 18;

Prompt some_prompt(int32_t n, int32_t seed) {
  Prompt prompt;
  for (int32_t i = 0; i < n; ++i) {
    prompt.token_ids.push_back((131 + seed * 37 + i * i * 7 + i * 13) % 900 + 3);
  }
  return prompt;
}

// What each sequence has after its prompt and a decode step in ever smaller batches.
std::vector<std::vector<int32_t>> run(bool graphs, const FakeMachine& machine) {
  const auto device = make_gpu(0, graphs);
  auto model = load_model({.path = demo_model_dir("llava"),
                           .max_step_tokens = 64,
                           .max_model_len = 128,
                           .vision_devices = {device.get()},
                           .language_devices = {device.get()}});
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  StepRunner runner(*model, *device, 64);
  std::vector<StepRunner::Sequence> sequences;
  for (int32_t i = 0; i < kSequences; ++i) {
    sequences.push_back(runner.start(some_prompt(1 + i % 3, i)));
  }
  std::vector<StepRunner::Share> prompts;
  for (auto& sequence : sequences) prompts.push_back({&sequence, std::ssize(sequence.tokens)});
  runner.step(prompts);
  const uint64_t launched = machine.counters().graph_launches;
  for (size_t batch = kSequences; batch > 0; --batch) {
    std::vector<StepRunner::Share> shares;
    for (size_t i = 0; i < batch; ++i) shares.push_back({&sequences[i], 1});
    runner.step(shares);
  }
  BOOST_TEST(machine.counters().graph_launches - launched == (graphs ? kSequences : 0U));
  // Of 24, 16, 8, 4, 2 and 1 rows.
  BOOST_TEST(machine.calls("cudaGraphInstantiate") <= 6U);
  std::vector<std::vector<int32_t>> outputs;
  for (const auto& sequence : sequences) outputs.push_back(sequence.output());
  return outputs;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(step_graphs_cuda_tests)

BOOST_AUTO_TEST_CASE(recorded_steps_give_the_same_tokens_at_every_batch_size) {
  std::vector<std::vector<int32_t>> called;
  {
    FakeMachine machine({.devices = {cuda_emu::a100()}});
    called = run(false, machine);
    check_clean(machine);
  }
  BOOST_TEST(called.front().size() == kSequences + 1U);
  FakeMachine machine({.devices = {cuda_emu::a100()}, .seed = 2});
  const auto recorded = run(true, machine);
  for (size_t i = 0; i < called.size(); ++i) {
    BOOST_TEST(recorded[i] == called[i], "sequence " << i);
  }
  check_clean(machine);
}

BOOST_AUTO_TEST_CASE(a_step_that_cannot_be_recorded_is_called) {
  FakeMachine machine({.devices = {cuda_emu::a100()}});
  {
    const auto device = make_gpu();
    Buffer memory = must_allocate(*device, 1024);
    const Matrix m{memory.data(), DType::kBF16, 4, 16, 16};
    const auto recorder = device->make_recorder();
    BOOST_REQUIRE(recorder != nullptr);
    const std::vector<uint16_t> ones(64, 0x3F80);
    device->upload(ones.data(), memory.data(), 128);
    const auto twice = [&]() -> Status {
      device->ops().add_rows(m, m.row_range(0, 4));
      return {};
    };
    machine.fail_call("cudaGraphInstantiate", 1, cudaErrorNotSupported);
    BOOST_TEST(recorder->run(1, twice).has_value());
    BOOST_TEST(recorder->run(1, twice).has_value());
    BOOST_TEST(recorder->run(2, twice).has_value());
    BOOST_TEST(recorder->run(2, twice).has_value());
    BOOST_TEST(machine.counters().graph_launches == 2U);
    BOOST_TEST((download<uint16_t>(*device, memory.data(), 64) ==
                std::vector<uint16_t>(64, 0x4180)));  // 16
  }
  check_clean(machine);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
