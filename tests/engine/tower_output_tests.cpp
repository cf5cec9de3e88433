// Embeddings reach exactly the rows that were reserved for them, on one device and between two, and
// a picture with values that are not finite is told apart from its neighbours.
#include <boost/test/unit_test.hpp>

#include "engine/fakes.h"
#include "engine/work_orders.h"

using namespace hs;
using namespace hs::test;

namespace {

struct TowerFixture {
  FakeDevice vision_device{0};
  FakeDevice language_device{1};
  FakeVision tower{vision_device};
  std::vector<std::shared_ptr<const ImagePatches>> images;
  EncodeOrder order;

  // Two pictures of 3 and 5 rows, which go to row 7 of the slots.
  TowerFixture() {
    order.items = {{.request = 1, .image = 0, .slot = 0, .n_rows = 3},
                   {.request = 2, .image = 0, .slot = 1, .n_rows = 5}};
    order.first_row = 7;
    order.n_rows = 8;
    for (const auto& item : order.items) {
      images.push_back(make_prompt({picture_part(item.request, item.n_rows)}).images[0]);
    }
  }
  std::unique_ptr<TowerOutput> output(int32_t dim = kDim) {
    auto made = TowerOutput::create(tower, vision_device,
                                    {.dim = dim, .max_encode_rows = 10, .n_buffers = 2});
    BOOST_REQUIRE(made);
    return std::move(*made);
  }
  static std::unique_ptr<EmbeddingIntake> intake_on(Device& device,
                                                    Projector* projector = nullptr) {
    auto made = EmbeddingIntake::create(device, {.dim = kDim,
                                                 .n_rows = 20,
                                                 .projector = projector,
                                                 .feature_dim = kFeatureDim,
                                                 .max_arriving_rows = 10});
    BOOST_REQUIRE(made);
    return std::move(*made);
  }
  std::unique_ptr<EncodeWork> work(TowerOutput& output, EmbeddingIntake& intake) const {
    auto made = std::make_unique<EncodeWork>(output, intake);
    made->order = order;
    made->images = images;
    return made;
  }
  // What the tower gives for both pictures, on its own.
  std::vector<float> expected() {
    FakeDevice device(2);
    FakeVision alone(device);
    std::vector<float> rows(8 * kDim);
    const std::vector<const ImagePatches*> pointers{images[0].get(), images[1].get()};
    BOOST_REQUIRE(alone.encode(
        pointers,
        {.data = rows.data(), .dtype = DType::kF32, .rows = 8, .cols = kDim, .stride = kDim}));
    return rows;
  }
  static std::vector<float> rows_at(const EmbeddingIntake& intake, int64_t first, int64_t n) {
    const float* values = static_cast<const float*>(intake.memory().rows(first, n).data);
    return {values, values + n * kDim};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tower_output_tests, TowerFixture)

BOOST_AUTO_TEST_CASE(on_one_device_the_tower_writes_into_the_slots) {
  const auto its_output = output();
  const auto intake = intake_on(vision_device);
  const auto encode = work(*its_output, *intake);
  BOOST_REQUIRE(encode->execute());
  BOOST_TEST(rows_at(*intake, 7, 8) == expected(), boost::test_tools::per_element());
  BOOST_TEST(rows_at(*intake, 6, 1) == std::vector<float>(kDim), boost::test_tools::per_element());
  BOOST_TEST(rows_at(*intake, 15, 5) == std::vector<float>(5 * kDim),
             boost::test_tools::per_element());
  BOOST_TEST((encode->outcomes == std::vector<ImageOutcome>(2, ImageOutcome::kOk)));
}

BOOST_AUTO_TEST_CASE(between_two_devices_rows_arrive_with_the_transfer_order) {
  order.buffer = 1;
  const auto its_output = output();
  const auto intake = intake_on(language_device);
  BOOST_REQUIRE(work(*its_output, *intake)->execute());
  BOOST_TEST(rows_at(*intake, 0, 20) == std::vector<float>(20 * kDim),
             boost::test_tools::per_element());
  auto link = PeerLink::open(vision_device, language_device, LinkChoice::kAuto, {});
  BOOST_REQUIRE(link);
  // The second picture alone, as when the first has failed.
  TransferWork transfer(*its_output, *intake, **link, true);
  transfer.order = {.id = 1, .buffer = 1, .items = {{1, 3, 10, 5}}};
  BOOST_REQUIRE(transfer.execute());
  BOOST_TEST(transfer.copy.bytes == 5 * kDim * 4);
  const std::vector<float> all = expected();
  BOOST_TEST(rows_at(*intake, 10, 5) == std::vector<float>(all.begin() + 3 * kDim, all.end()),
             boost::test_tools::per_element());
  BOOST_TEST(rows_at(*intake, 7, 3) == std::vector<float>(3 * kDim),
             boost::test_tools::per_element());
}

// The same rows arrive, whichever device projects, and features are what crosses.
BOOST_AUTO_TEST_CASE(features_become_embeddings_in_the_slots) {
  const auto its_output = output(kFeatureDim);
  FakeProjector here(vision_device);
  const auto near = intake_on(vision_device, &here);
  BOOST_REQUIRE(work(*its_output, *near)->execute());
  BOOST_TEST(rows_at(*near, 7, 8) == expected(), boost::test_tools::per_element());

  order.buffer = 0;
  FakeProjector there(language_device);
  const auto far = intake_on(language_device, &there);
  BOOST_REQUIRE(work(*its_output, *far)->execute());
  BOOST_TEST(there.n_rows == 0);
  auto link = PeerLink::open(vision_device, language_device, LinkChoice::kAuto, {});
  BOOST_REQUIRE(link);
  TransferWork transfer(*its_output, *far, **link, true);
  transfer.order = {.id = 1, .buffer = 0, .items = {{0, 0, 7, 3}, {1, 3, 15, 5}}};
  BOOST_REQUIRE(transfer.execute());
  BOOST_TEST(transfer.copy.bytes == 8 * kFeatureDim * 4);
  const std::vector<float> all = expected();
  BOOST_TEST(rows_at(*far, 7, 3) == std::vector<float>(all.begin(), all.begin() + 3 * kDim),
             boost::test_tools::per_element());
  BOOST_TEST(rows_at(*far, 15, 5) == std::vector<float>(all.begin() + 3 * kDim, all.end()),
             boost::test_tools::per_element());
  BOOST_TEST(rows_at(*far, 10, 5) == std::vector<float>(5 * kDim),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_picture_that_the_projector_spoils_is_told_apart) {
  FakeProjector projector(vision_device);
  projector.nan_picture = 1;
  const auto its_output = output(kFeatureDim);
  const auto intake = intake_on(vision_device, &projector);
  const auto encode = work(*its_output, *intake);
  BOOST_REQUIRE(encode->execute());
  BOOST_TEST((encode->outcomes[0] == ImageOutcome::kFailed));
  BOOST_TEST((encode->outcomes[1] == ImageOutcome::kOk));
}

BOOST_AUTO_TEST_CASE(a_picture_that_is_not_finite_is_told_apart) {
  tower.nan_picture = 2;
  const auto its_output = output();
  const auto intake = intake_on(vision_device);
  for (const int32_t buffer : {-1, 0}) {
    order.buffer = buffer;
    const auto encode = work(*its_output, *intake);
    BOOST_REQUIRE(encode->execute());
    BOOST_TEST((encode->outcomes[0] == ImageOutcome::kOk));
    BOOST_TEST((encode->outcomes[1] == ImageOutcome::kFailed));
  }
}

BOOST_AUTO_TEST_CASE(a_tower_or_device_that_fails_is_an_error) {
  const auto its_output = output();
  const auto intake = intake_on(vision_device);
  tower.fail_call = 0;
  BOOST_TEST(!work(*its_output, *intake)->execute());
  vision_device.fail_sync = true;
  BOOST_TEST(!work(*its_output, *intake)->execute());
  vision_device.fail_sync = false;
  BOOST_TEST(work(*its_output, *intake)->execute().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
