// The demo models compute what Hugging Face transformers computes: prompt ids and positions,
// pixels, image embeddings, logits and greedy tokens of every case in tests/golden, on each
// backend.
#include <algorithm>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <map>
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

const std::string kModels[] = {"llava", "qwen2_5_vl"};

Loaded load_demo(const std::string& name, const std::string& backend, DType dtype) {
  Loaded loaded{make_backend(backend), {}};
  auto model = load_model({.path = demo_model_dir(name),
                           .dtype = dtype,
                           .max_step_tokens = 256,
                           .vision_devices = {loaded.device.get()},
                           .language_devices = {loaded.device.get()}});
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  loaded.model = std::move(*model);
  return loaded;
}

const std::vector<GoldenCase>& cases(const std::string& name) {
  static std::map<std::string, std::vector<GoldenCase>> all;
  auto& own = all[name];
  if (own.empty()) own = load_golden_cases(golden_dir(name));
  return own;
}

void check_exact(const std::string& name, const std::string& backend, const GoldenCase& golden) {
  Loaded demo = load_demo(name, backend, DType::kF32);
  const Comparison result = compare(demo.model, *demo.device, golden);
  BOOST_TEST_CONTEXT(name << " " << golden.name << " on " << backend) {
    BOOST_TEST(result.ids_equal);
    BOOST_TEST(result.positions_equal);
    BOOST_TEST(result.pixel_difference <= kPixelTolerance);
    BOOST_TEST(result.image_cosine >= kCosineMin);
    BOOST_TEST(result.logits_difference <= kLogitsTolerance);
    BOOST_TEST(same_greedy(golden, result.greedy));
    BOOST_TEST_MESSAGE("logits differ by " << result.logits_difference
                                           << ", image embeddings by cosine " << result.image_cosine
                                           << ", pixels by " << result.pixel_difference);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(goldens_tests)

BOOST_DATA_TEST_CASE(every_kind_of_case_is_there, boost::unit_test::data::make(kModels), name) {
  BOOST_TEST(cases(name).size() == 12U);
  BOOST_TEST(std::ranges::any_of(cases(name),
                                 [](const GoldenCase& c) { return !c.pixel_values.empty(); }));
  BOOST_TEST(std::ranges::any_of(cases(name),
                                 [](const GoldenCase& c) { return c.image_files.size() > 1; }));
  for (const auto& golden : cases(name)) {
    BOOST_TEST(golden.greedy.size() == 24U, golden.name);
    BOOST_TEST(golden.logits.size() == 1024U, golden.name);
    BOOST_TEST(golden.image_embeds.empty() == golden.image_files.empty(), golden.name);
    BOOST_TEST(golden.position_ids.size() == (name == "llava" ? 0 : 3 * golden.input_ids.size()),
               golden.name);
  }
}

BOOST_DATA_TEST_CASE(cpu_device_equals_the_reference_library,
                     boost::unit_test::data::make(kModels) * boost::unit_test::data::xrange(12),
                     name, i) {
  check_exact(name, "cpu", cases(name).at(static_cast<size_t>(i)));
}

// The plain loops are the oracle of the other backends; a few cases show that they are one.
BOOST_DATA_TEST_CASE(plain_loops_equal_the_reference_library,
                     boost::unit_test::data::make(kModels) *
                         boost::unit_test::data::make({0, 2, 10}),
                     name, i) {
  check_exact(name, "reference", cases(name).at(static_cast<size_t>(i)));
}

// bfloat16 weights change logits in the second digit: tokens with a clear lead must survive that.
BOOST_DATA_TEST_CASE(bfloat16_keeps_every_token_with_a_clear_lead,
                     boost::unit_test::data::make(kModels), name) {
  constexpr double kClearLead = 0.5;
  Loaded demo = load_demo(name, "cpu", DType::kBF16);
  for (const auto& golden : cases(name)) {
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
