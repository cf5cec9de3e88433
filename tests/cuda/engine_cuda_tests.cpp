// Proves the engine on emulated GPUs: pictures on a 4090 and answers on an A100 without peer
// access, two cards that share a language model, and one card for everything give the same answers;
// nothing is allocated once the engine stands; a lost card ends its requests with a clear error.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "cuda/backend_testing.h"
#include "engine/engine_fixture.h"
#include "media/image.h"
#include "support/source_dir.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;
using cuda_emu::Peer;

const std::filesystem::path kDemo = std::filesystem::path(source_dir()) / "models/demo";

cuda_emu::MachineSpec two_cards(uint64_t seed, Peer peer = Peer::kNone) {
  return {.devices = {cuda_emu::rtx_4090(), cuda_emu::a100()}, .seed = seed, .peer = peer};
}

enum class Use {
  kOneCard,   // the A100 does everything
  kTwoTiers,  // pictures on the 4090
  kShared,    // both share the language model
};

struct Served {
  explicit Served(Use use) {
    gpus.push_back(make_gpu(0));
    gpus.push_back(make_gpu(1));
    Device* const card = gpus[0].get();
    Device* const center = gpus[1].get();
    placement = use == Use::kOneCard ? place({}, {center}, Partition::kColocated, false)
                : use == Use::kTwoTiers
                    ? place({card}, {center}, Partition::kModality, false)
                    : place({center}, {center, card}, Partition::kModality, false, 2);
    auto loaded = load_model({.path = kDemo / "llava",
                              .max_step_tokens = 128,
                              .max_encode_images = 1,
                              .max_model_len = 256,
                              .vision_devices = placement.tower_devices,
                              .language_devices = placement.language_devices});
    BOOST_REQUIRE_MESSAGE(loaded, message_of(loaded));
    model = std::move(*loaded);
    const EngineConfig config{.max_model_len = 256,
                              .max_num_seqs = 4,
                              .max_num_batched_tokens = 128,
                              .kv_blocks = 64,
                              .max_encode_images = 1,
                              .embedding_cache_rows = 128,
                              .prefix_cache = false};
    auto made = Engine::create(model, make_topology(model, placement), config, clock,
                               [this] { wake.notify(); });
    BOOST_REQUIRE_MESSAGE(made, message_of(made));
    engine = std::move(*made);
  }

  std::shared_ptr<RecordingSink> ask(const char* picture, int32_t n_tokens) {
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
    auto sink = std::make_shared<RecordingSink>();
    BOOST_REQUIRE(engine->submit(make_request(std::move(*prompt), n_tokens), sink));
    return sink;
  }

  void run() {
    for (;;) {
      engine->poll();
      if (engine->idle()) return;
      bool woken = false;  // emulated steps take seconds
      for (int i = 0; i < 6 && !woken; ++i) woken = wake.wait();
      BOOST_REQUIRE_MESSAGE(woken, "the engine stands still");
    }
  }

  std::vector<std::unique_ptr<Device>> gpus;
  Placement placement;
  Model model;
  WakeUp wake;
  SystemClock clock;
  std::unique_ptr<Engine> engine;
};

// Of a picture's request beside one of text.
std::vector<std::string> answers(Use use, const cuda_emu::MachineSpec& spec) {
  FakeMachine machine(spec);
  std::vector<std::string> texts;
  {
    Served served(use);
    const auto allocations = machine.counters().allocations;
    const auto picture = served.ask("picture1.png", 6);
    const auto text = served.ask(nullptr, 6);
    served.run();
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
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      BOOST_TEST(answers(Use::kTwoTiers, two_cards(seed)) == alone);
    }
  }
  BOOST_TEST(answers(Use::kTwoTiers, two_cards(4, Peer::kYes)) == alone);
}

BOOST_AUTO_TEST_CASE(two_cards_that_share_a_model_answer_as_one) {
  const auto alone = answers(Use::kOneCard, two_cards(1));
  BOOST_TEST(answers(Use::kShared, two_cards(2)) == alone);
  BOOST_TEST(answers(Use::kShared, two_cards(3, Peer::kYes)) == alone);
  BOOST_TEST(answers(Use::kShared, two_cards(4, Peer::kLies)) == alone);
}

BOOST_AUTO_TEST_CASE(a_card_that_is_lost_ends_its_requests_with_a_clear_error) {
  FakeMachine machine(two_cards(5));
  {
    Served served(Use::kTwoTiers);
    machine.fail_operation(1, 40, cudaErrorECCUncorrectable);
    const auto sink = served.ask("picture1.png", 8);
    served.run();
    BOOST_REQUIRE(sink->error.has_value());
    BOOST_TEST(sink->error->code == "device_lost");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
