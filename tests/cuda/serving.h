// Emulated GPUs, a model on them and an engine, for tests that serve.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "cuda/backend_testing.h"
#include "engine/engine_fixture.h"
#include "model/model.h"

namespace hs::test {

// What two emulated cards, the consumer's first, are for.
enum class Use {
  kOneCard,   // the second does everything
  kTwoTiers,  // pictures on the first, language on the second
  kStealing,  // that, and the first takes requests from the second when it can
  kShared,    // both share the language model
};

struct ServeOptions {
  Use use = Use::kTwoTiers;
  std::filesystem::path model;
  bool graphs = true;
  DType dtype = DType::kBF16;
  int32_t max_step_tokens = 128;
  int32_t max_num_seqs = 4;
};

// Members go in the reverse order: the engine stops its lanes before the model and the devices go.
class Serving {
 public:
  // Whatever fails on the way is the error.
  static Result<std::unique_ptr<Serving>> start(const ServeOptions& options);

  // Greedy; n_tokens of answer, end tokens are ignored.
  std::shared_ptr<RecordingSink> ask(Prompt prompt, int32_t n_tokens);
  // Until nothing is left to do; false when the engine stands still.
  [[nodiscard]] bool run();
  const Model& model() const { return model_; }
  Engine& engine() { return *engine_; }

 private:
  Serving() = default;
  Status load(const ServeOptions& options);

  std::vector<std::unique_ptr<Device>> gpus_;
  Placement placement_;
  Model model_;
  WakeUp wake_;
  SystemClock clock_;
  std::unique_ptr<Engine> engine_;
};

inline cuda_emu::MachineSpec two_cards(uint64_t seed, cuda_emu::Peer peer = cuda_emu::Peer::kNone) {
  return {.devices = {cuda_emu::rtx_4090(), cuda_emu::a100()}, .seed = seed, .peer = peer};
}

}  // namespace hs::test
