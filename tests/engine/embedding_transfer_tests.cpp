// Embeddings reach exactly the rows that were reserved for them, on one device and between two, and
// a picture with values that are not finite is told apart from its neighbours.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <limits>

#include "engine/embedding_transfer.h"
#include "engine/fakes.h"

using namespace hs;
using namespace hs::test;

namespace {

struct TransferFixture {
  FakeDevice vision_device{0};
  FakeDevice language_device{1};
  std::vector<std::shared_ptr<const ImagePatches>> images;
  EncodeOrder order;
  std::vector<ImageOutcome> outcomes;

  // Two pictures of 3 and 5 rows at row 7 of the slots.
  TransferFixture() {
    order.items = {{.request = 1, .image = 0, .slot = 0, .n_rows = 3},
                   {.request = 2, .image = 0, .slot = 1, .n_rows = 5}};
    order.first_row = 7;
    order.n_rows = 8;
    order.buffer = 1;
    for (const auto& item : order.items) {
      images.push_back(make_prompt({picture_part(item.request, item.n_rows)}).images[0]);
    }
    outcomes.resize(2);
  }
  std::unique_ptr<EmbeddingTransfer> make(FakeVision& tower, FakeDevice& language) {
    auto made = EmbeddingTransfer::create(tower, vision_device, language,
                                          {.dim = kDim, .n_rows = 20, .max_encode_rows = 10});
    BOOST_REQUIRE(made);
    return std::move(*made);
  }
  // What the tower gives for both pictures, on its own.
  std::vector<float> expected() {
    FakeDevice device(2);
    FakeVision tower(device);
    std::vector<float> rows(8 * kDim);
    const std::vector<const ImagePatches*> pointers{images[0].get(), images[1].get()};
    BOOST_REQUIRE(tower.encode(
        pointers,
        {.data = rows.data(), .dtype = DType::kF32, .rows = 8, .cols = kDim, .stride = kDim}));
    return rows;
  }
  static std::vector<float> rows_at(const EmbeddingTransfer& transfer, int64_t first, int64_t n) {
    const float* values = static_cast<const float*>(transfer.row(first));
    return {values, values + n * kDim};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(embedding_transfer_tests, TransferFixture)

BOOST_AUTO_TEST_CASE(on_one_device_the_tower_writes_into_the_slots) {
  FakeVision tower(vision_device);
  const auto transfer = make(tower, vision_device);
  BOOST_TEST(transfer->same_device());
  BOOST_REQUIRE(transfer->encode(order, images, outcomes));
  BOOST_TEST(rows_at(*transfer, 7, 8) == expected(), boost::test_tools::per_element());
  BOOST_TEST(rows_at(*transfer, 6, 1) == std::vector<float>(kDim),
             boost::test_tools::per_element());
  BOOST_TEST(rows_at(*transfer, 15, 5) == std::vector<float>(5 * kDim),
             boost::test_tools::per_element());
  BOOST_TEST((outcomes == std::vector<ImageOutcome>(2, ImageOutcome::kOk)));
}

BOOST_AUTO_TEST_CASE(between_two_devices_rows_arrive_with_the_transfer_order) {
  FakeVision tower(vision_device);
  const auto transfer = make(tower, language_device);
  BOOST_TEST(!transfer->same_device());
  BOOST_REQUIRE(transfer->encode(order, images, outcomes));
  BOOST_TEST(rows_at(*transfer, 0, 20) == std::vector<float>(20 * kDim),
             boost::test_tools::per_element());
  // The second picture alone, as when the first has failed.
  TransferOrder moving{.id = 1, .buffer = 1, .items = {{1, 3, 10, 5}}};
  const Result<int64_t> bytes = transfer->transfer(moving);
  BOOST_REQUIRE(bytes);
  BOOST_TEST(*bytes == 5 * kDim * 4);
  BOOST_TEST(language_device.uploaded_bytes == *bytes);
  const std::vector<float> all = expected();
  BOOST_TEST(rows_at(*transfer, 10, 5) == std::vector<float>(all.begin() + 3 * kDim, all.end()),
             boost::test_tools::per_element());
  BOOST_TEST(rows_at(*transfer, 7, 3) == std::vector<float>(3 * kDim),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_picture_that_is_not_finite_is_told_apart) {
  for (FakeDevice* language : {&vision_device, &language_device}) {
    FakeVision tower(vision_device);
    tower.nan_picture = 2;
    const auto transfer = make(tower, *language);
    BOOST_REQUIRE(transfer->encode(order, images, outcomes));
    BOOST_TEST((outcomes[0] == ImageOutcome::kOk));
    BOOST_TEST((outcomes[1] == ImageOutcome::kFailed));
  }
}

BOOST_AUTO_TEST_CASE(a_lost_device_is_an_error) {
  FakeVision tower(vision_device);
  const auto transfer = make(tower, language_device);
  tower.fail_call = 0;
  BOOST_TEST(!transfer->encode(order, images, outcomes));
  vision_device.fail_sync = true;
  BOOST_TEST(!transfer->encode(order, images, outcomes));
  vision_device.fail_sync = false;
  BOOST_REQUIRE(transfer->encode(order, images, outcomes));
  language_device.fail_sync = true;
  BOOST_TEST(!transfer->transfer({.id = 1, .buffer = 1, .items = {{0, 0, 7, 3}}}));
}

BOOST_AUTO_TEST_CASE(every_kind_of_bad_value_is_seen_in_every_format) {
  const auto finite_f32 = [](float value) {
    std::vector<float> values(100, 3.0e38F);
    values[77] = value;
    return all_finite(std::as_bytes(std::span(values)), DType::kF32);
  };
  using Limits = std::numeric_limits<float>;
  for (const float good : {0.0F, -1.5F, Limits::max(), Limits::lowest(), Limits::denorm_min()}) {
    BOOST_TEST(finite_f32(good));
  }
  for (const float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    BOOST_TEST(!finite_f32(bad));
  }
  const auto finite_16 = [](uint16_t bits, DType dtype) {
    const std::vector<uint16_t> values{0, bits, 1};
    return all_finite(std::as_bytes(std::span(values)), dtype);
  };
  BOOST_TEST(finite_16(0x7f7f, DType::kBF16));
  BOOST_TEST(!finite_16(0x7f80, DType::kBF16));
  BOOST_TEST(!finite_16(0xffc0, DType::kBF16));
  BOOST_TEST(finite_16(0x7bff, DType::kF16));
  BOOST_TEST(!finite_16(0xfc00, DType::kF16));
}

BOOST_AUTO_TEST_SUITE_END()
