// Proves that the demo models answer on the emulated GPU as transformers does in float32: the same
// greedy tokens as far as they lead clearly, pictures and logits within what bfloat16 allows; and
// that recorded steps change nothing.
#include <algorithm>
#include <boost/test/data/test_case.hpp>

#include "cuda/backend_testing.h"
#include "model/golden_cases.h"
#include "model/golden_compare.h"
#include "model/step_runner.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;

const std::string kModels[] = {"llava", "qwen2_5_vl"};

Model load_demo(const std::string& name, Device& device) {
  auto model = load_model({.path = demo_model_dir(name),
                           .max_step_tokens = 256,
                           .max_model_len = 512,
                           .vision_devices = {&device},
                           .language_devices = {&device}});
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  return std::move(*model);
}

// Tokens before the first whose lead on the second-best is smaller than rounding may turn.
std::ptrdiff_t n_clear(const GoldenCase& golden) {
  constexpr double kClearLead = 0.5;
  const auto unclear =
      std::ranges::find_if(golden.greedy_leads, [](double lead) { return lead < kClearLead; });
  return unclear - golden.greedy_leads.begin();
}

// The case with the fewest tokens that has a picture.
GoldenCase small_case(const std::string& name) {
  auto cases = load_golden_cases(golden_dir(name));
  std::erase_if(cases, [](const GoldenCase& c) { return c.image_files.empty(); });
  return *std::ranges::min_element(cases, {},
                                   [](const GoldenCase& c) { return c.input_ids.size(); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(goldens_cuda_tests)

BOOST_DATA_TEST_CASE(the_demo_models_answer_as_the_reference_library,
                     boost::unit_test::data::make(kModels), name) {
  FakeMachine machine({.devices = {cuda_emu::a100()}});
  {
    const auto device = make_gpu();
    Model model = load_demo(name, *device);
    GoldenCase golden = small_case(name);
    golden.greedy.resize(12);
    const Comparison result = compare(model, *device, golden);
    BOOST_TEST(result.ids_equal);
    BOOST_TEST(result.positions_equal);
    BOOST_TEST(result.image_cosine >= 0.999);
    BOOST_TEST(result.logits_difference <= 0.25);
    const auto n = std::min<std::ptrdiff_t>(n_clear(golden), 12);
    BOOST_TEST(n >= 4);
    BOOST_TEST(std::equal(result.greedy.begin(), result.greedy.begin() + n, golden.greedy.begin()));
    BOOST_TEST_MESSAGE(golden.name << ": logits differ by " << result.logits_difference
                                   << ", pictures by cosine " << result.image_cosine << ", " << n
                                   << " of 12 tokens lead clearly");
    BOOST_TEST(machine.counters().graph_launches > 0U);
  }
  check_clean(machine);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
