// Proves the engine on emulated GPUs: pictures on a 4090 and answers on an A100 without peer
// access, two cards that share a language model, and one card for everything give the same answers;
// nothing is allocated once the engine stands; a lost card ends its requests with a clear error.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "cuda/serving.h"
#include "media/image.h"
#include "support/source_dir.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;
using cuda_emu::Peer;

const std::filesystem::path kDemo = std::filesystem::path(source_dir()) / "models/demo";

std::unique_ptr<Serving> must_start(Use use, DType dtype = DType::kBF16) {
  auto serving = Serving::start({.use = use, .model = kDemo / "llava", .dtype = dtype});
  BOOST_REQUIRE_MESSAGE(serving.has_value(), message_of(serving));
  return std::move(*serving);
}

Prompt question(const Model& model, const char* picture) {
  std::vector<std::shared_ptr<const ImagePatches>> images;
  ChatInput chat;
  ChatMessage& message = chat.messages.emplace_back();
  message.role = "user";
  if (picture != nullptr) {
    message.parts.push_back({ChatPart::Kind::kImage, ""});
    std::ifstream file(kDemo / "examples" / picture, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    const auto image = decode_image(std::as_bytes(std::span(bytes)), {});
    BOOST_REQUIRE(image);
    auto patches = model.prompts->preprocess(*image, {});
    BOOST_REQUIRE(patches);
    images.push_back(std::make_shared<ImagePatches>(std::move(*patches)));
  }
  message.parts.push_back({ChatPart::Kind::kText, "What is in the picture?"});
  auto prompt = model.prompts->chat(chat, std::move(images));
  BOOST_REQUIRE(prompt);
  return std::move(*prompt);
}

// Of a picture's request beside one of text.
std::vector<std::string> answers(Use use, const cuda_emu::MachineSpec& spec,
                                 DType dtype = DType::kBF16) {
  FakeMachine machine(spec);
  std::vector<std::string> texts;
  {
    const auto serving = must_start(use, dtype);
    const auto allocations = machine.counters().allocations;
    const auto picture = serving->ask(question(serving->model(), "picture1.png"), 6);
    const auto text = serving->ask(question(serving->model(), nullptr), 6);
    BOOST_REQUIRE_MESSAGE(serving->run(), "the engine stands still");
    for (const auto& sink : {picture, text}) {
      BOOST_REQUIRE_MESSAGE(!sink->error, (sink->error ? sink->error->message : ""));
      texts.push_back(sink->choices[0].text);
    }
    BOOST_TEST(machine.counters().allocations == allocations, "allocated while serving");
    BOOST_TEST(machine.counters().driver_staged_copies == 0U);
  }
  check_clean(machine);
  return texts;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(engine_cuda_tests)

BOOST_AUTO_TEST_CASE(two_tiers_without_peer_access_answer_as_one_card) {
  const auto alone = answers(Use::kOneCard, two_cards(1));
  BOOST_TEST(!alone[0].empty());
  BOOST_TEST(answers(Use::kTwoTiers, two_cards(1)) == alone);
  BOOST_TEST(answers(Use::kTwoTiers, two_cards(4, Peer::kYes)) == alone);
}

BOOST_AUTO_TEST_CASE(two_cards_that_share_a_model_answer_as_one) {
  const auto alone = answers(Use::kOneCard, two_cards(1));
  BOOST_TEST(answers(Use::kShared, two_cards(2)) == alone);
  BOOST_TEST(answers(Use::kShared, two_cards(3, Peer::kYes)) == alone);
  BOOST_TEST(answers(Use::kShared, two_cards(4, Peer::kLies)) == alone);
}

BOOST_AUTO_TEST_CASE(float16_answers_as_bfloat16_does) {
  const auto brain = answers(Use::kOneCard, two_cards(1));
  BOOST_TEST(answers(Use::kTwoTiers, two_cards(2), DType::kF16) == brain);
}

BOOST_AUTO_TEST_CASE(a_card_that_is_lost_ends_its_requests_with_a_clear_error) {
  FakeMachine machine(two_cards(5));
  {
    const auto serving = must_start(Use::kTwoTiers);
    machine.fail_operation(1, 40, cudaErrorECCUncorrectable);
    const auto sink = serving->ask(question(serving->model(), "picture1.png"), 8);
    BOOST_REQUIRE_MESSAGE(serving->run(), "the engine stands still");
    BOOST_REQUIRE(sink->error.has_value());
    BOOST_TEST(sink->error->code == "device_lost");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
