// Times of pictures and steps are the roofline's, computed by hand; language work of a request
// follows from them.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "plan/serving_model.h"
#include "plan/shipped_data.h"

namespace hs::test {
namespace {

ModelShape shipped(const std::string& name) {
  const auto shapes = read_model_shapes(shipped_models_toml(), "models.toml").value();
  for (const ModelShape& one : shapes) {
    if (one.name == name) return one;
  }
  BOOST_FAIL("no shape " << name);
  return {};
}

DeviceModel device(const ModelShape& shape, const char* card, int32_t n_cards = 1) {
  const auto catalogue = read_catalogue(shipped_cards_toml(), "cards.toml").value();
  return {shape, catalogue.card(card).value(), n_cards, catalogue.efficiency, catalogue.link};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(serving_model_tests)

BOOST_AUTO_TEST_CASE(a_step_reads_the_weights_or_multiplies_with_them) {
  const ModelShape shape = shipped("llava-1.5-7b");
  const DeviceModel card = device(shape, "a100-80");
  const auto near = boost::test_tools::tolerance(1e-9);
  const double flops_us = 312e6 * 0.5;  // 312 TFLOPS, half of them
  const double bytes_us = 2.039e6 * 0.85;
  const double layers = 6'476'005'376;
  const double head = 32064.0 * 4096;
  BOOST_TEST(card.weights_us() == (layers + head) * 2 / bytes_us, near);
  BOOST_TEST(card.token_us() == 2 * layers / flops_us, near);
  // One token: the weights, and 512 KiB of keys and values for each of 701 tokens.
  const StepPart decode[] = {{.first = 700, .count = 1, .sample = true}};
  BOOST_TEST(card.step_us(decode) == card.weights_us() + 701 * 524'288 / bytes_us, near);
  // A prompt of 608: operations, and attention over 608 * 609 / 2 pairs.
  const StepPart prompt[] = {{.first = 0, .count = 608, .sample = true}};
  const double attention = 4.0 * 32 * 4096 * 608 * 609 / 2 / flops_us;
  BOOST_TEST(card.step_us(prompt) == (608 * 2 * layers + 2 * head) / flops_us + attention, near);
}

BOOST_AUTO_TEST_CASE(the_step_of_several_is_the_sum_of_what_each_reads) {
  const ModelShape shape = shipped("qwen2.5-vl-7b");
  const DeviceModel card = device(shape, "rtx4090");
  const StepPart one[] = {{.first = 100, .count = 1, .sample = true}};
  const StepPart two[] = {{.first = 100, .count = 1, .sample = true},
                          {.first = 200, .count = 1, .sample = true}};
  const double more = card.attention_us(two[1]);
  BOOST_TEST(card.step_us(two) == card.step_us(one) + more, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(pictures_take_their_operations_on_the_card) {
  const ModelShape shape = shipped("llava-1.5-7b");
  const int32_t rows[] = {576, 576};
  const double flops = shape.encode_flops(576);
  BOOST_TEST(device(shape, "a100-80").encode_us(rows) == 2 * flops / (312e6 * 0.45),
             boost::test_tools::tolerance(1e-9));
  // 2.8 and 5.2 ms a picture.
  BOOST_TEST(device(shape, "a100-80").picture_us(576) == 2780.0,
             boost::test_tools::tolerance(0.01));
  BOOST_TEST(device(shape, "rtx4090").picture_us(576) == 5250.0,
             boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(what_memory_leaves_is_for_keys_and_values) {
  const ModelShape llava = shipped("llava-1.5-7b");
  // (24e9 * 0.9 - 1e9 - 2 * (6738673664 + tower)) / 512 KiB
  const int64_t with = device(llava, "rtx4090").kv_tokens(true);
  const int64_t without = device(llava, "rtx4090").kv_tokens(false);
  BOOST_TEST(without == static_cast<int64_t>((20.6e9 - 2.0 * 6'738'673'664) / 524'288));
  BOOST_TEST(with < without);
  BOOST_TEST(device(shipped("qwen2.5-vl-32b"), "rtx4090").kv_tokens(false) < 0);
  BOOST_TEST(device(shipped("qwen2.5-vl-72b"), "a100-80").kv_tokens(false) < 0);
  BOOST_TEST(device(shipped("qwen2.5-vl-72b"), "a100-80", 4).kv_tokens(true) > 10'000);
}

BOOST_AUTO_TEST_CASE(cards_that_share_a_model_pay_for_their_sums) {
  const ModelShape shape = shipped("qwen2.5-vl-32b");
  const StepPart decode[] = {{.first = 1000, .count = 1, .sample = true}};
  const double one = device(shape, "a100-80").step_us(decode);
  const double two = device(shape, "a100-80", 2).step_us(decode);
  BOOST_TEST(two > one / 2);
  BOOST_TEST(two < one);
}

BOOST_AUTO_TEST_CASE(prompts_alone_cost_their_operations) {
  const ModelShape shape = shipped("llava-1.5-7b");
  const DeviceModel card = device(shape, "a100-80");
  const Workload workload = uniform_workload({{576}, 32, 128}, 0);
  const LanguageTime prefill = language_time(card, workload, {}, LanguagePart::kPrefill, false);
  BOOST_REQUIRE(prefill.fits);
  const double by_hand = 608 * card.token_us() + card.attention_us({.first = 0, .count = 608});
  BOOST_TEST(prefill.us == by_hand, boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(decoding_shares_the_weights_among_the_batch) {
  const ModelShape shape = shipped("llava-1.5-7b");
  const DeviceModel card = device(shape, "a100-80");
  const Workload workload = uniform_workload({{576}, 32, 128}, 0);
  const LanguageTime decode = language_time(card, workload, {}, LanguagePart::kDecode, false);
  // 127 steps of 64 sequences, each reading its own keys and values: 608 to 735 tokens.
  const double keys = 127 * (609 + 735) / 2.0 * 524'288 / (2.039e6 * 0.85);
  BOOST_TEST(decode.us == 127 * card.weights_us() / 64 + keys, boost::test_tools::tolerance(0.01));
  BOOST_TEST(decode.batch == 64);
}

BOOST_AUTO_TEST_CASE(a_whole_request_costs_less_than_its_parts_apart) {
  const ModelShape shape = shipped("qwen2.5-vl-7b");
  const DeviceModel card = device(shape, "a100-80");
  const Workload workload = uniform_workload({{1024}, 32, 128}, 0.5);
  const auto us = [&](LanguagePart part) {
    return language_time(card, workload, {}, part, false).us;
  };
  const double whole = us(LanguagePart::kWhole);
  BOOST_TEST(whole < us(LanguagePart::kPrefill) + us(LanguagePart::kDecode));
  BOOST_TEST(whole > us(LanguagePart::kPrefill));
}

BOOST_AUTO_TEST_CASE(a_model_without_room_for_one_request_does_not_fit) {
  const ModelShape shape = shipped("llava-1.5-7b");
  const Workload workload = uniform_workload({{576}, 100'000, 1}, 0);
  const LanguageTime time =
      language_time(device(shape, "rtx4090"), workload, {}, LanguagePart::kWhole, true);
  BOOST_TEST(!time.fits);
  BOOST_TEST(std::isinf(time.us));
}

BOOST_AUTO_TEST_CASE(lengths_are_spread_evenly_about_their_mean) {
  const Workload workload = uniform_workload({{}, 10, 100}, 0.5);
  const WorkloadMeans mean = means(workload);
  BOOST_TEST(mean.output_tokens == 100.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(mean.prompt_tokens == 10.0);
  int32_t least = 1000;
  int32_t most = 0;
  for (const RequestShape& request : workload.requests) {
    least = std::min(least, request.output_tokens);
    most = std::max(most, request.output_tokens);
  }
  BOOST_TEST(least == 50);
  BOOST_TEST(most == 150);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
