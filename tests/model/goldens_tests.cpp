// The demo model computes what Hugging Face transformers computes: prompt ids, pixels, image
// embeddings, logits and greedy tokens of every case in tests/golden, on each backend.
#include <algorithm>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "golden_cases.h"
#include "golden_compare.h"
#include "support/backends.h"
#include "support/results.h"

namespace hs::test {

namespace {

struct Loaded {
  std::unique_ptr<Device> device;
  Model model;
};

Loaded load_demo(const std::string& backend, DType dtype) {
  Loaded loaded{make_backend(backend), {}};
  auto model = load_model({.path = demo_model_dir(),
                           .dtype = dtype,
                           .max_step_tokens = 256,
                           .vision_devices = {loaded.device.get()},
                           .language_devices = {loaded.device.get()}});
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  loaded.model = std::move(*model);
  return loaded;
}

const std::vector<GoldenCase>& cases() {
  static const std::vector<GoldenCase> all = load_golden_cases(golden_dir());
  return all;
}

void check_exact(const std::string& backend, const GoldenCase& golden) {
  Loaded demo = load_demo(backend, DType::kF32);
  const Comparison result = compare(demo.model, *demo.device, golden);
  BOOST_TEST_CONTEXT(golden.name << " on " << backend) {
    BOOST_TEST(result.ids_equal);
    BOOST_TEST(result.pixel_difference <= kPixelTolerance);
    BOOST_TEST(result.image_cosine >= kCosineMin);
    BOOST_TEST(result.logits_difference <= kLogitsTolerance);
    BOOST_TEST(result.greedy == golden.greedy);
    BOOST_TEST_MESSAGE("logits differ by " << result.logits_difference
                                           << ", image embeddings by cosine " << result.image_cosine
                                           << ", pixels by " << result.pixel_difference);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(goldens_tests)

BOOST_AUTO_TEST_CASE(every_kind_of_case_is_there) {
  BOOST_TEST(cases().size() == 12U);
  BOOST_TEST(
      std::ranges::any_of(cases(), [](const GoldenCase& c) { return !c.pixel_values.empty(); }));
  BOOST_TEST(
      std::ranges::any_of(cases(), [](const GoldenCase& c) { return c.image_files.size() > 1; }));
  for (const auto& golden : cases()) {
    BOOST_TEST(golden.greedy.size() == 24U, golden.name);
    BOOST_TEST(golden.logits.size() == 1024U, golden.name);
    BOOST_TEST(golden.image_embeds.empty() == golden.image_files.empty(), golden.name);
  }
}

BOOST_DATA_TEST_CASE(cpu_device_equals_the_reference_library, boost::unit_test::data::xrange(12),
                     i) {
  check_exact("cpu", cases().at(static_cast<size_t>(i)));
}

// The plain loops are the oracle of the other backends; a few cases show that they are one.
BOOST_DATA_TEST_CASE(plain_loops_equal_the_reference_library,
                     boost::unit_test::data::make({0, 2, 10}), i) {
  check_exact("reference", cases().at(static_cast<size_t>(i)));
}

// bfloat16 weights change logits in the second digit: tokens with a clear lead must survive that.
BOOST_AUTO_TEST_CASE(bfloat16_keeps_every_token_with_a_clear_lead) {
  constexpr double kClearLead = 0.5;
  Loaded demo = load_demo("cpu", DType::kBF16);
  for (const auto& golden : cases()) {
    const Comparison result = compare(demo.model, *demo.device, golden);
    BOOST_TEST(result.image_cosine >= 0.999, golden.name);
    BOOST_TEST(result.logits_difference <= 0.25, golden.name << ": " << result.logits_difference);
    const auto unclear =
        std::ranges::find_if(golden.greedy_leads, [](double lead) { return lead < kClearLead; });
    const auto n = static_cast<size_t>(unclear - golden.greedy_leads.begin());
    BOOST_TEST(
        std::equal(golden.greedy.begin(), golden.greedy.begin() + static_cast<std::ptrdiff_t>(n),
                   result.greedy.begin()),
        golden.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
