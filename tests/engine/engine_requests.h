// Requests of the engine's tests.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "engine/engine_fixture.h"

namespace hs::test {

inline std::vector<int32_t> tokens(int32_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(3 + random() % 58));
  return ids;
}

inline Prompt text_prompt(int32_t n, uint32_t seed) {
  return make_prompt({text_part(tokens(n, seed))});
}

inline Prompt picture_prompt(uint64_t picture, int32_t n_axes = 1) {
  return make_prompt({text_part(tokens(6, 5)), picture_part(picture, 13), text_part(tokens(9, 6))},
                     n_axes);
}

inline GenerateRequest long_request(Prompt prompt, int32_t n) {
  GenerateRequest request = make_request(std::move(prompt), n);
  request.ignore_eos = true;
  return request;
}

}  // namespace hs::test
