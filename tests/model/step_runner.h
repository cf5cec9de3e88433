// Runs sequences through a LanguageModel step by step, with a paged cache whose blocks are handed
// out in no particular order: a scheduler small enough to be read, for tests of the models.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"
#include "model/model.h"

namespace hs::test {

class StepRunner {
 public:
  struct Sequence {
    Prompt prompt;
    Buffer image_rows;            // embeddings of all its pictures, one after another
    std::vector<int32_t> tokens;  // prompt and output so far
    std::vector<int32_t> blocks;
    int64_t n_cached = 0;  // tokens that have run

    std::vector<int32_t> output() const {
      return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.token_ids.size()), tokens.end()};
    }
  };
  // What of a sequence runs in a step: its next n tokens.
  using Share = std::pair<Sequence*, int64_t>;

  // `model` and `device` must outlive the runner. KV memory for n_blocks blocks.
  StepRunner(Model& model, Device& device, int64_t n_blocks);

  // Encodes the prompt's pictures.
  Sequence start(Prompt prompt);
  // Runs one step; sequences whose last token ran get one more, greedily.
  void step(const std::vector<Share>& shares);
  // As step(), but gives the logits (rows of shares that reached their last token) and appends
  // nothing.
  std::vector<float> logits(const std::vector<Share>& shares);
  // Runs what is left of the prompt in pieces of `chunk` and then decodes until there are n output
  // tokens.
  void generate(Sequence& sequence, int64_t n, int64_t chunk);

 private:
  LanguageStep plan(const std::vector<Share>& shares);
  void give_blocks(Sequence& sequence, int64_t n_tokens);

  Model* model_;
  Device* device_;
  std::vector<int32_t> free_;
};

// Image embeddings of patches, in host memory (rows, dim).
std::vector<float> encode_images(Model& model, Device& device,
                                 std::span<const ImagePatches* const> images);

}  // namespace hs::test
