// The bytes and ratios of every cut are those computed by hand from the published shapes, and
// copies take the time their link's rate says.
#include <boost/test/unit_test.hpp>
#include <string>

#include "plan/shipped_data.h"
#include "plan/transfer_cost.h"

namespace hs::test {
namespace {

constexpr int64_t kMib = 1 << 20;

ModelShape shipped(const std::string& name) {
  const auto shapes = read_model_shapes(shipped_models_toml(), "models.toml");
  BOOST_REQUIRE(shapes.has_value());
  for (const ModelShape& shape : *shapes) {
    if (shape.name == name) return shape;
  }
  BOOST_FAIL("no shape " << name);
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transfer_cost_tests)

BOOST_AUTO_TEST_CASE(llava_7b_moves_4_5_mib_after_and_1_125_mib_before_the_projector) {
  const CutBytes bytes = cut_bytes(shipped("llava-1.5-7b"), 576, 2048, 2);
  BOOST_TEST(bytes.post_projector == 4'718'592);  // 576 * 4096 * 2
  BOOST_TEST(bytes.post_projector == 9 * kMib / 2);
  BOOST_TEST(bytes.pre_projector == 1'179'648);  // 576 * 1024 * 2
  BOOST_TEST(bytes.pre_projector == 9 * kMib / 8);
  BOOST_TEST(bytes.pixels == 338'688);    // 336 * 336 * 3
  BOOST_TEST(bytes.hidden == 16 * kMib);  // 2048 * 4096 * 2
  BOOST_TEST(bytes.kv == 1024 * kMib);    // 2048 * 512 KiB
}

BOOST_AUTO_TEST_CASE(keys_and_values_of_a_token_are_counted_with_shared_heads) {
  BOOST_TEST(shipped("llava-1.5-7b").kv_token_bytes(2) == 512 * 1024);
  BOOST_TEST(shipped("llava-1.5-13b").kv_token_bytes(2) == 800 * 1024);
  BOOST_TEST(shipped("qwen2.5-vl-3b").kv_token_bytes(2) == 36 * 1024);
  BOOST_TEST(shipped("qwen2.5-vl-7b").kv_token_bytes(2) == 56 * 1024);
  BOOST_TEST(shipped("qwen2.5-vl-32b").kv_token_bytes(2) == 256 * 1024);
  BOOST_TEST(shipped("qwen2.5-vl-72b").kv_token_bytes(2) == 320 * 1024);
}

BOOST_AUTO_TEST_CASE(ratios_are_those_of_the_theorem) {
  const auto exact = boost::test_tools::tolerance(1e-12);
  const ModelShape llava = shipped("llava-1.5-7b");
  BOOST_TEST(transfer_ratio(llava, 576, 576) == 64.0, exact);
  BOOST_TEST(transfer_ratio(llava, 576, 2048) == 2048.0 / 9, exact);  // 227.6
  const ModelShape llava13 = shipped("llava-1.5-13b");
  BOOST_TEST(cut_bytes(llava13, 576, 0, 2).post_projector == 5'898'240);  // 5.625 MiB
  BOOST_TEST(transfer_ratio(llava13, 576, 576) == 80.0, exact);
  const ModelShape qwen = shipped("qwen2.5-vl-7b");
  BOOST_TEST(cut_bytes(qwen, 1024, 0, 2).post_projector == 7 * kMib);
  BOOST_TEST(transfer_ratio(qwen, 1024, 1024) == 8.0, exact);
  BOOST_TEST(transfer_ratio(qwen, 1369, 2048) == 16384.0 / 1369, exact);  // 11.97
  BOOST_TEST(transfer_ratio(shipped("qwen2.5-vl-3b"), 1024, 1024) == 9.0, exact);
  BOOST_TEST(transfer_ratio(shipped("qwen2.5-vl-32b"), 1024, 1024) == 25.6, exact);
  const ModelShape large = shipped("qwen2.5-vl-72b");
  BOOST_TEST(cut_bytes(large, 1024, 0, 2).post_projector == 16 * kMib);
  BOOST_TEST(transfer_ratio(large, 1024, 1024) == 20.0, exact);
}

BOOST_AUTO_TEST_CASE(the_ratio_is_that_of_the_bytes) {
  for (const char* name : {"llava-1.5-7b", "qwen2.5-vl-3b", "qwen2.5-vl-72b"}) {
    const ModelShape shape = shipped(name);
    const CutBytes bytes = cut_bytes(shape, 576, 1234, 2);
    BOOST_TEST(static_cast<double>(bytes.kv) / static_cast<double>(bytes.post_projector) ==
                   transfer_ratio(shape, 576, 1234),
               boost::test_tools::tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(the_ends_of_the_papers_range_are_met_at_these_contexts) {
  const auto near = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(context_at_ratio(shipped("llava-1.5-7b"), 576, 196) == 1764.0, near);
  BOOST_TEST(context_at_ratio(shipped("llava-1.5-13b"), 576, 196) == 1411.2, near);
  BOOST_TEST(context_at_ratio(shipped("qwen2.5-vl-7b"), 1369, 12) == 2053.5, near);
}

BOOST_AUTO_TEST_CASE(pictures_have_the_rows_that_preprocessing_gives_them) {
  const ModelShape qwen = shipped("qwen2.5-vl-7b");
  BOOST_TEST(qwen.image_rows({896, 896}).value() == 1024);
  BOOST_TEST(qwen.image_rows({1036, 1036}).value() == 1369);
  BOOST_TEST(qwen.image_rows({10, 10}).value() == 4);          // at least 3,136 pixels
  BOOST_TEST(qwen.image_rows({8000, 8000}).value() <= 16384);  // at most 12,845,056
  BOOST_TEST(!qwen.image_rows({1, 8000}).has_value());
  BOOST_TEST(!qwen.image_rows({0, 10}).has_value());
  BOOST_TEST(shipped("llava-1.5-7b").image_rows({1000, 20}).value() == 576);
}

BOOST_AUTO_TEST_CASE(parameters_are_those_of_the_published_models) {
  // 32 * (4 * 4096^2 + 3 * 4096 * 11008), and twice 32064 * 4096 for both tables.
  const ModelShape llava = shipped("llava-1.5-7b");
  BOOST_TEST(llava.language.layer_parameters() == 6'476'005'376);
  BOOST_TEST(llava.language.parameters() == 6'738'673'664);
  // 28 * (3584 * 128 * 64 + 3 * 3584 * 18944)
  BOOST_TEST(shipped("qwen2.5-vl-7b").language.layer_parameters() == 6'525'288'448);
  BOOST_TEST(shipped("qwen2.5-vl-3b").language.tied);
}

BOOST_AUTO_TEST_CASE(encoding_takes_the_operations_counted_by_hand) {
  const auto near = boost::test_tools::tolerance(1e-9);
  const ModelShape llava = shipped("llava-1.5-7b");
  // 576 * 2 * (1024 * 4096 + 4096 * 4096)
  BOOST_TEST(llava.projector_flops(576) == 24'159'191'040.0, near);
  // 577 positions, 23 layers of 12 * 1024^2 weights, attention, patches of 588 numbers.
  const double products = 2.0 * 577 * 23 * 12 * 1024 * 1024;
  const double attention = 4.0 * 577 * 577 * 1024 * 23;
  const double patches = 2.0 * 576 * 588 * 1024;
  BOOST_TEST(llava.encode_flops(576) == products + attention + patches + 24'159'191'040.0, near);
  // 5.65 TFLOP for 1,024 rows of Qwen2.5-VL-7B, of which the windows take 28 layers.
  BOOST_TEST(shipped("qwen2.5-vl-7b").encode_flops(1024) / 1e12 == 5.65,
             boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(pcie_has_the_line_rate_of_its_generation_and_width) {
  const auto near = boost::test_tools::tolerance(1e-3);
  BOOST_TEST(pcie_gbs(3, 16) == 15.754, near);
  BOOST_TEST(pcie_gbs(4, 16) == 31.508, near);
  BOOST_TEST(pcie_gbs(4, 4) == 7.877, near);
  BOOST_TEST(pcie_gbs(5, 8) == 31.508, near);
}

BOOST_AUTO_TEST_CASE(a_staged_copy_costs_one_chunk_more_than_a_peer_copy) {
  const LinkRates rates{.pcie_efficiency = 0.8, .staged_chunk_mib = 1, .latency_us = 15};
  const auto near = boost::test_tools::tolerance(1e-9);
  const LinkPath staged{LinkPath::Kind::kStaged, 25};
  const LinkPath peer{LinkPath::Kind::kPeer, 25};
  BOOST_TEST(copy_us(peer, 25e6, rates) == 1015.0, near);
  BOOST_TEST(copy_us(staged, 25e6, rates) == 1015.0 + (1 << 20) / 25e3, near);
  BOOST_TEST(copy_us(staged, 1000, rates) == 15 + 2 * 1000 / 25e3, near);  // one chunk, two hops
  BOOST_TEST(copy_us(peer, 0, rates) == 0.0);
}

BOOST_AUTO_TEST_CASE(cards_of_one_kind_copy_directly_and_others_through_the_host) {
  const auto catalogue = read_catalogue(shipped_cards_toml(), "cards.toml");
  BOOST_REQUIRE(catalogue.has_value());
  const Card consumer = catalogue->card("rtx4090").value();
  const Card datacenter = catalogue->card("a100-80").value();
  const Card pcie_only = catalogue->card("a100-40").value();
  const LinkRates& rates = catalogue->link;
  BOOST_TEST((path_between(consumer, datacenter, rates).kind == LinkPath::Kind::kStaged));
  BOOST_TEST((path_between(consumer, consumer, rates).kind == LinkPath::Kind::kStaged));
  BOOST_TEST((path_between(datacenter, datacenter, rates).kind == LinkPath::Kind::kNvlink));
  BOOST_TEST((path_between(pcie_only, pcie_only, rates).kind == LinkPath::Kind::kPeer));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
