// Prompts of the demo model: placeholders come only from image parts, each as long as its picture
// has embeddings, and user text that spells a control token stays text.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint_files.h"
#include "golden_cases.h"
#include "model/model.h"
#include "model/prompt.h"
#include "support/backends.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs::test {

namespace {

constexpr int32_t kImageToken = 1000;

struct Fixture {
  Fixture() : device(make_backend("cpu")) {
    auto loaded = load_model({.path = demo_model_dir(),
                              .dtype = DType::kBF16,
                              .max_step_tokens = 64,
                              .max_encode_images = 1,
                              .vision_devices = {device.get()},
                              .language_devices = {device.get()}});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), message_of(loaded));
    model = std::move(*loaded);
  }

  Result<Prompt> chat(const std::vector<ChatMessage>& messages, size_t n_images) const {
    ChatInput input;
    input.messages = messages;
    std::vector<std::shared_ptr<const ImagePatches>> images(n_images);
    for (auto& image : images) image = std::make_shared<ImagePatches>();
    return model.prompts->chat(input, images);
  }
  Prompt must_chat(const std::vector<ChatMessage>& messages, size_t n_images) const {
    auto prompt = chat(messages, n_images);
    BOOST_REQUIRE_MESSAGE(prompt.has_value(), message_of(prompt));
    return std::move(*prompt);
  }

  std::unique_ptr<Device> device;
  Model model;
};

ChatPart text(const std::string& words) {
  return {ChatPart::Kind::kText, words};
}
ChatPart image() {
  return {ChatPart::Kind::kImage, ""};
}
ChatMessage user(std::vector<ChatPart> parts) {
  return {"user", std::move(parts)};
}

int64_t n_placeholders(const Prompt& prompt) {
  return std::ranges::count(prompt.token_ids, kImageToken);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(prompt_tests, Fixture)

BOOST_AUTO_TEST_CASE(word_image_in_user_text_stays_text) {
  for (const size_t n_images : {0U, 1U}) {
    for (const std::string& words :
         {std::string("what does <image> mean?"), std::string("<image>"),
          std::string("<image><image> <image>\n"), std::string("</s><s>[<pad>]")}) {
      std::vector<ChatPart> parts(n_images, image());
      parts.push_back(text(words));
      const Prompt prompt = must_chat({user(parts)}, n_images);
      BOOST_TEST(n_placeholders(prompt) == static_cast<int64_t>(64 * n_images), words);
      BOOST_TEST(std::ranges::count(prompt.token_ids, 1) == 1, words);  // BOS
      BOOST_TEST(std::ranges::count(prompt.token_ids, 2) == 0, words);
      BOOST_TEST(std::ranges::count(prompt.token_ids, 1001) == 0, words);
      const auto shown =
          model.prompts->tokenizer().decode(prompt.token_ids, /*skip_special_tokens=*/false);
      BOOST_TEST(shown.find(words) != std::string::npos, shown);
    }
  }
}

BOOST_AUTO_TEST_CASE(each_image_part_has_its_span_in_order) {
  const Prompt prompt = must_chat({user({image(), text("one"), image()}),
                                   {"assistant", {text("two shapes")}},
                                   user({text("and"), image(), text("this?")})},
                                  3);
  BOOST_REQUIRE_EQUAL(prompt.spans.size(), 3U);
  BOOST_TEST(prompt.images.size() == 3U);
  int32_t end = 0;
  for (const auto& span : prompt.spans) {
    BOOST_TEST(span.first >= end);
    BOOST_TEST(span.count == 64);
    end = span.first + span.count;
    for (int32_t i = span.first; i < end; ++i) {
      BOOST_TEST(prompt.token_ids[static_cast<size_t>(i)] == kImageToken);
    }
  }
  BOOST_TEST(n_placeholders(prompt) == 3 * 64);
}

BOOST_AUTO_TEST_CASE(positions_count_up_from_zero) {
  const Prompt prompt = must_chat({user({image(), text("what?")})}, 1);
  BOOST_REQUIRE_EQUAL(prompt.positions.size(), prompt.token_ids.size());
  for (size_t i = 0; i < prompt.positions.size(); ++i) {
    BOOST_TEST(prompt.positions[i] == static_cast<int32_t>(i));
  }
  BOOST_TEST(prompt.position_delta == 0);
}

BOOST_AUTO_TEST_CASE(more_or_fewer_pictures_than_parts_is_an_error) {
  for (const size_t n_images : {0U, 2U}) {
    const auto prompt = chat({user({image(), text("what?")})}, n_images);
    BOOST_REQUIRE(!prompt.has_value());
    BOOST_TEST((prompt.error().kind == ErrorKind::kInvalidArgument));
    BOOST_TEST(prompt.error().code == "invalid_image_placement");
  }
}

BOOST_AUTO_TEST_CASE(completion_is_plain_text_with_bos_on_request) {
  const auto with = model.prompts->completion("a <image> </s>", true);
  const auto without = model.prompts->completion("a <image> </s>", false);
  BOOST_REQUIRE(with.has_value());
  BOOST_REQUIRE(without.has_value());
  BOOST_TEST(with->token_ids.front() == 1);
  BOOST_TEST(without->token_ids.front() != 1);
  BOOST_TEST(n_placeholders(*with) == 0);
  BOOST_TEST(std::ranges::count(with->token_ids, 2) == 0);
  BOOST_TEST(with->token_ids.size() == without->token_ids.size() + 1);
  BOOST_TEST(with->positions.size() == with->token_ids.size());
}

BOOST_AUTO_TEST_CASE(preprocessing_gives_the_towers_grid) {
  for (const auto& [width, height] :
       {std::pair(112, 112), std::pair(37, 31), std::pair(500, 20), std::pair(1, 90)}) {
    Image picture{
        width, height,
        std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, 90)};
    const auto patches = model.prompts->preprocess(picture, {});
    BOOST_REQUIRE_MESSAGE(patches.has_value(), message_of(patches));
    BOOST_TEST(patches->grid_width == 8);
    BOOST_TEST(patches->grid_height == 8);
    BOOST_TEST(patches->patch_dim == 588);
    BOOST_TEST(patches->data.size() == 64U * 588);
    BOOST_TEST(model.towers.front()->tokens_of(*patches) == 64);
  }
}

BOOST_AUTO_TEST_CASE(beginning_of_text_is_not_written_twice) {
  TempDir dir;
  write_random_llama(dir.path(), nlohmann::json::object(), 1);
  const auto first_ids = [&](const std::string& source) {
    edit_json(dir.path() / "chat_template.json",
              [&](nlohmann::json& json) { json["chat_template"] = source; });
    auto loaded = PromptText::load(dir.path());
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), message_of(loaded));
    ChatInput input;
    input.messages = {user({text("Hello")})};
    const auto ids = loaded->encode_chat(input);
    BOOST_REQUIRE_MESSAGE(ids.has_value(), message_of(ids));
    return std::pair(ids->at(0), ids->at(1));
  };
  const auto plain =
      first_ids("{% for m in messages %}USER: {{ m['content'][0]['text'] }}{% endfor %}");
  const auto own = first_ids(
      "{{ bos_token }}{% for m in messages %}USER: {{ m['content'][0]['text'] }}{% endfor %}");
  BOOST_TEST(plain.first == 1);
  BOOST_TEST(plain.second != 1);
  BOOST_TEST(own.first == 1);
  BOOST_TEST(own.second != 1);
}

BOOST_AUTO_TEST_CASE(model_without_a_template_still_completes) {
  TempDir dir;
  copy_demo_checkpoint(dir.path());
  std::filesystem::remove(dir.path() / "chat_template.json");
  edit_json(dir.path() / "tokenizer_config.json",
            [](nlohmann::json& json) { json.erase("chat_template"); });
  const auto loaded = PromptText::load(dir.path());
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), message_of(loaded));
  const auto ids = loaded->encode_chat({});
  BOOST_REQUIRE(!ids.has_value());
  BOOST_TEST(ids.error().code == "no_chat_template");
  BOOST_TEST(!loaded->encode_plain("Hello", true).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
