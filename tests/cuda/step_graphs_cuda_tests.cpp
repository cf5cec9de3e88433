// Proves that recorded decode steps give the tokens of steps that are called op by op, at every
// batch size from 66 down to 1; that all of them are recorded, and all memory is taken, before the
// first request.
#include "cuda/backend_testing.h"
#include "cuda/tiny_checkpoint.h"
#include "model/step_runner.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;

constexpr int32_t kSequences = 66;  // two more than are recorded
constexpr int32_t kRecordedMax = 64;

// Whatever takes memory of a device, or of its driver.
uint64_t n_taken(const FakeMachine& machine) {
  uint64_t n = 0;
  for (const char* call :
       {"cudaMalloc", "cudaHostAlloc", "cudaGraphInstantiate", "cudaStreamBeginCapture",
        "cudaStreamCreateWithPriority", "cudaEventCreateWithFlags"}) {
    n += machine.calls(call);
  }
  return n;
}

// What each sequence has after its prompt and a decode step in ever smaller batches.
std::vector<std::vector<int32_t>> run(bool graphs, const std::filesystem::path& path,
                                      const FakeMachine& machine) {
  const auto device = make_gpu(0, graphs);
  auto model = load_model({.path = path,
                           .max_step_tokens = 128,
                           .max_model_len = 400,
                           .language_devices = {device.get()}});
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  StepRunner runner(*model, *device, 330);
  std::vector<StepRunner::Sequence> sequences;
  for (int32_t i = 0; i < kSequences; ++i) {
    sequences.push_back(runner.start(tiny_prompt(*model, 3 + i % 3, i, false)));
  }
  // Rows 1, 2, 4, 8 and multiples of 8; tables of 16 blocks, and of the 26 that a sequence may
  // have.
  BOOST_TEST(machine.calls("cudaGraphInstantiate") == (graphs ? 11U * 2 : 0U));
  constexpr size_t kTogether = 22;
  for (size_t first = 0; first < sequences.size(); first += kTogether) {
    std::vector<StepRunner::Share> prompts;
    for (size_t i = first; i < first + kTogether; ++i) {
      prompts.push_back({&sequences[i], std::ssize(sequences[i].tokens)});
    }
    runner.step(prompts);
  }
  const uint64_t launched = machine.counters().graph_launches;
  const uint64_t taken = n_taken(machine);
  for (size_t batch = kSequences; batch > 0; --batch) {
    std::vector<StepRunner::Share> shares;
    for (size_t i = 0; i < batch; ++i) shares.push_back({&sequences[i], 1});
    runner.step(shares);
    BOOST_TEST(n_taken(machine) == taken, "a step of " << batch << " took memory");
  }
  BOOST_TEST(machine.counters().graph_launches - launched == (graphs ? kRecordedMax : 0U));
  std::vector<std::vector<int32_t>> outputs;
  for (const auto& sequence : sequences) outputs.push_back(sequence.output());
  return outputs;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(step_graphs_cuda_tests)

BOOST_AUTO_TEST_CASE(recorded_steps_give_the_same_tokens_at_every_batch_size) {
  const TempDir dir;
  write_tiny_llava(dir.path());
  std::vector<std::vector<int32_t>> called;
  {
    FakeMachine machine({.devices = {cuda_emu::a100()}});
    called = run(false, dir.path(), machine);
    check_clean(machine);
  }
  BOOST_TEST(called.front().size() == kSequences + 1U);
  FakeMachine machine({.devices = {cuda_emu::a100()}, .seed = 2});
  const auto recorded = run(true, dir.path(), machine);
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
    BOOST_TEST(machine.counters().graph_launches == 1U);  // what is new is called first
    BOOST_TEST((download<uint16_t>(*device, memory.data(), 64) ==
                std::vector<uint16_t>(64, 0x4180)));  // 16
  }
  check_clean(machine);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
