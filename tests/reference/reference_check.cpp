// Compares this program with Hugging Face transformers on random-weight checkpoints of many shapes:
//
//   HS_REFERENCE_DIR=DIR reference_check
//
// DIR is what tests/reference/make_cases.py wrote. One line a case; the exit code is 1 if any is
// off.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "model/golden_cases.h"
#include "model/golden_compare.h"
#include "support/backends.h"

namespace {

using namespace hs;
using namespace hs::test;

bool check_checkpoint(const std::filesystem::path& dir, Device& device) {
  auto model = load_model({.path = dir,
                           .dtype = DType::kF32,
                           .max_step_tokens = 2048,
                           .vision_devices = {&device},
                           .language_devices = {&device}});
  if (!model) {
    fmt::print("FAIL {}: {}\n", dir.filename().string(), model.error().message);
    return false;
  }
  bool all = true;
  for (const auto& golden : load_golden_cases(dir / "golden" / "numbers")) {
    const Comparison result = compare(*model, device, golden);
    const bool same = same_greedy(golden, result.greedy);
    const bool good =
        result.ids_equal && result.positions_equal && result.pixel_difference <= kPixelTolerance &&
        result.image_cosine >= kCosineMin && result.logits_difference <= kLogitsTolerance && same;
    fmt::print(
        "{} {} {}: ids {}, positions {}, pixels {:.1e}, cosine {:.7f}, logits {:.1e}, greedy {}\n",
        good ? "ok  " : "FAIL", dir.filename().string(), golden.name,
        result.ids_equal ? "same" : "DIFFER", result.positions_equal ? "same" : "DIFFER",
        result.pixel_difference, result.image_cosine, result.logits_difference,
        same ? "same" : "DIFFER");
    all = all && good;
  }
  return all;
}

}  // namespace

int main() {
  const char* root = std::getenv("HS_REFERENCE_DIR");
  if (root == nullptr) {
    fmt::print(stderr, "reference_check: HS_REFERENCE_DIR is not set\n");
    return 2;
  }
  std::vector<std::filesystem::path> dirs;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(root, code)) {
    if (std::filesystem::exists(entry.path() / "golden" / "numbers")) dirs.push_back(entry.path());
  }
  std::ranges::sort(dirs);
  const auto device = make_backend("cpu");
  size_t n_good = 0;
  for (const auto& dir : dirs) n_good += check_checkpoint(dir, *device) ? 1U : 0U;
  fmt::print("{} passed, {} failed\n", n_good, dirs.size() - n_good);
  return dirs.empty() || n_good != dirs.size() ? 1 : 0;
}
