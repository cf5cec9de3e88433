// Proves what becomes of a request's pictures on their way to the engine: order, wanted sizes, and
// which of them are refused, by which name, before any work is spent on them.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "api/api_handler.h"
#include "api/fixture.h"
#include "support/source_dir.h"

namespace hs::test {
namespace {

using nlohmann::json;

std::string base64_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<uint8_t>(c);
    for (n_bits += 8; n_bits >= 6; n_bits -= 6) out += kDigits[(bits >> (n_bits - 6)) & 63];
  }
  if (n_bits > 0) out += kDigits[(bits << (6 - n_bits)) & 63];
  return out;
}

json picture_message(const std::string& url) {
  return {{"messages",
           {{{"role", "user"},
             {"content",
              {{{"type", "text"}, {"text", "look"}},
               {{"type", "image_url"}, {"image_url", {{"url", url}}}}}}}}}};
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(api_handler_pictures_tests, ApiFixture)

BOOST_AUTO_TEST_CASE(pictures_reach_the_engine_in_order) {
  const std::string picture = base64_of(source_dir() + "/models/demo/examples/picture1.png");
  const auto writer = chat(picture_message("data:image/png;base64," + picture));
  BOOST_REQUIRE_MESSAGE(engine.requests.size() == 1U, writer->body);
  BOOST_TEST(engine.requests[0].prompt.images.size() == 1U);
  BOOST_TEST(engine.requests[0].prompt.spans[0].count == 4);
  finish();
  BOOST_TEST(rows[0].n_images == 1);
  BOOST_TEST(rows[0].image_pixels > 0);
}

BOOST_AUTO_TEST_CASE(prepared_pictures_are_bounded_together_and_one_request_alone_never_is) {
  const std::string picture = base64_of(source_dir() + "/models/demo/examples/picture1.png");
  const json message = picture_message("data:image/png;base64," + picture);
  prompts.n_floats = kPixelBytesMax;
  chat(message);
  BOOST_TEST_REQUIRE(engine.requests.size() == 1U);
  prompts.n_floats = 1;
  const auto refused = chat(message);
  BOOST_TEST(refused->status == 503);
  BOOST_TEST(refused->json()["error"]["code"] == "queue_full");
  BOOST_TEST(chat({})->status == 0);  // a text takes none
  engine.sinks[0]->on_choice_finished(0, FinishReason::kStop, "");
  engine.sinks[0]->on_done({}, {}, nullptr);
  chat(message);
  BOOST_TEST(engine.requests.size() == 3U);
}

BOOST_AUTO_TEST_CASE(bad_pictures_name_their_part) {
  for (const char* url : {"data:image/png;base64,", "data:image/png;base64,AAAA",
                          "http://127.0.0.1/x.png", "AAAA", ""}) {
    const auto writer = chat(picture_message(url));
    BOOST_TEST(writer->status == 400, url);
    BOOST_TEST(error_of(*writer)["param"] == "messages[0].content[1].image_url", url);
  }
  const auto large = chat(picture_message("data:image/png;base64," + std::string(8000, 'A')));
  BOOST_TEST(large->status == 400);
  BOOST_TEST(error_of(*large)["code"] == "image_too_large");
}

BOOST_AUTO_TEST_CASE(wanted_sizes_of_pictures_reach_the_preprocessor) {
  const std::string picture =
      "data:image/png;base64," + base64_of(source_dir() + "/models/demo/examples/picture1.png");
  json body = picture_message(picture);
  body["mm_processor_kwargs"] = {{"min_pixels", 784}, {"max_pixels", 50176}};
  chat(body);
  finish();
  body["messages"][0]["content"][1]["image_url"]["detail"] = "low";
  chat(body);
  finish();
  BOOST_REQUIRE(engine.requests.size() == 2U);
  for (const int i : {0, 1}) {
    const ImagePatches& image = *engine.requests[static_cast<size_t>(i)].prompt.images[0];
    BOOST_TEST(image.content_hash[0] == 784U);
    BOOST_TEST(image.content_hash[1] == 50176U);
    BOOST_TEST(image.patch_dim == i);
  }
}

BOOST_AUTO_TEST_CASE(a_shape_that_the_model_cannot_take_is_400_before_the_first_byte) {
  prompts.refusal = {ErrorKind::kInvalidArgument, "201 times", "invalid_image", ""};
  json body = picture_message("data:image/png;base64," +
                              base64_of(source_dir() + "/models/demo/examples/picture1.png"));
  body["stream"] = true;
  const auto writer = chat(body);
  BOOST_TEST(writer->status == 400);
  BOOST_TEST(!writer->streaming);
  BOOST_TEST(error_of(*writer)["code"] == "invalid_image");
  BOOST_TEST(error_of(*writer)["param"] == "messages[0].content[1].image_url");
}

BOOST_AUTO_TEST_CASE(pictures_beyond_the_context_are_refused_before_they_are_preprocessed) {
  const std::string picture =
      "data:image/png;base64," + base64_of(source_dir() + "/models/demo/examples/picture1.png");
  json body = picture_message(picture);
  json& parts = body["messages"][0]["content"];
  parts.push_back(parts[1]);
  prompts.pixels_per_token = 224 * 224 / 128;
  const auto refused = chat(body);
  BOOST_TEST(refused->status == 400);
  BOOST_TEST(error_of(*refused)["code"] == "context_length_exceeded");
  BOOST_TEST(error_of(*refused)["param"] == "messages[0].content[2].image_url");
  const std::string message = error_of(*refused)["message"];
  BOOST_TEST(message.find("take 256 tokens") != std::string::npos, message);
  BOOST_TEST(message.find("length is 256 tokens") != std::string::npos, message);
  BOOST_TEST(prompts.n_preprocessed == 1);  // the one that still had room
  BOOST_TEST(engine.requests.empty());

  prompts.pixels_per_token = 224 * 224 / 127;  // a token is left for the rest: up to the engine
  chat(body);
  BOOST_TEST(engine.requests.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_text_model_refuses_pictures) {
  spec.has_vision = false;
  const auto writer = chat(picture_message("data:image/png;base64,AAAA"));
  BOOST_TEST(writer->status == 400);
  BOOST_TEST(error_of(*writer)["param"] == "messages[0].content[1].image_url");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
