// Rotary frequencies of every variant are those of transformers' ROPE_INIT_FUNCTIONS
// (tests/golden/rope.json), and configs of all generations mean the same.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "model/rope.h"
#include "support/source_dir.h"

namespace hs::test {

namespace {

RopeConfig read(const std::string& text, std::optional<Error>& error,
                int32_t max_positions = 2048) {
  const auto json = nlohmann::json::parse(text);
  FieldReader reader("config.json", json, error);
  return read_rope_config(reader, max_positions);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rope_tests)

BOOST_AUTO_TEST_CASE(frequencies_are_those_of_the_reference) {
  std::ifstream stream(source_dir() + "/tests/golden/rope.json");
  BOOST_REQUIRE(stream.good());
  const auto goldens = nlohmann::json::parse(stream);
  BOOST_REQUIRE(goldens.size() >= 10U);
  for (const auto& golden : goldens) {
    const std::string name = golden.at("name");
    std::optional<Error> error;
    const auto& json = golden.at("config");
    FieldReader reader("config.json", json, error);
    const int32_t max_positions = json.at("max_position_embeddings");
    const RopeConfig config = read_rope_config(reader, max_positions);
    BOOST_REQUIRE_MESSAGE(!error, (error ? error->message : name));
    const auto frequencies =
        rope_frequencies(config, json.at("head_dim"), max_positions, golden.at("n_positions"));
    const auto expected = golden.at("frequencies").get<std::vector<double>>();
    BOOST_REQUIRE_EQUAL(frequencies.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      BOOST_TEST(std::abs(static_cast<double>(frequencies[i]) - expected[i]) <= 1e-6 * expected[i],
                 name << " [" << i << "]: " << frequencies[i] << " is not " << expected[i]);
    }
    BOOST_TEST(
        std::abs(config.attention_factor - golden.at("attention_factor").get<double>()) < 1e-9,
        name);
  }
}

BOOST_AUTO_TEST_CASE(table_holds_cos_and_sin_of_position_times_frequency) {
  RopeConfig config;
  config.attention_factor = 2.0;
  const auto table = rope_table(config, {1.0F, 0.5F}, 3);
  BOOST_REQUIRE_EQUAL(table.size(), 12U);
  BOOST_TEST(table[0] == 2.0F);  // cos 0
  BOOST_TEST(std::abs(static_cast<double>(table[2 * 2 + 1]) - 2 * std::cos(1.0)) < 1e-6);
  BOOST_TEST(std::abs(static_cast<double>(table[6 + 2 * 2]) - 2 * std::sin(2.0)) < 1e-6);
}

BOOST_AUTO_TEST_CASE(old_and_new_spellings_mean_the_same) {
  std::optional<Error> error;
  const auto old_way =
      read(R"({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}})", error);
  const auto new_way = read(
      R"({"rope_parameters": {"rope_type": "linear", "rope_theta": 5e5, "factor": 4.0}})", error);
  BOOST_REQUIRE(!error);
  BOOST_TEST((old_way.type == new_way.type));
  BOOST_TEST(old_way.theta == 5e5);
  BOOST_TEST(new_way.theta == 5e5);
  BOOST_TEST(old_way.factor == new_way.factor);
}

BOOST_AUTO_TEST_CASE(null_scaling_is_the_default_variant) {
  std::optional<Error> error;
  BOOST_TEST((read(R"({"rope_scaling": null})", error).type == RopeConfig::Type::kDefault));
  BOOST_TEST(!error);
}

BOOST_AUTO_TEST_CASE(dynamic_scaling_changes_nothing_within_the_trained_length) {
  std::optional<Error> error;
  const auto dynamic = read(R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})", error);
  BOOST_REQUIRE(!error);
  BOOST_TEST(rope_frequencies(dynamic, 64, 2048, 2048) == rope_frequencies({}, 64, 2048, 2048));
  BOOST_TEST(rope_frequencies(dynamic, 64, 2048, 4096) != rope_frequencies({}, 64, 2048, 4096));
}

BOOST_AUTO_TEST_CASE(wrong_fields_are_named) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"rope_scaling": {"type": "longrope", "factor": 2}})",
       "config.json: rope_scaling.type \"longrope\""},
      {R"({"rope_scaling": {"type": "linear"}})", "config.json: rope_scaling.factor is missing"},
      {R"({"rope_scaling": "linear"})", "config.json: rope_scaling must be an object"},
      {R"({"rope_theta": "big"})", "config.json: rope_theta must be a number"},
      {R"({"rope_theta": 0})", "config.json: rope_theta must be a number"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}})",
       "high_freq_factor"},
      {R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})",
       "partial_rotary_factor"},
  };
  for (const auto& [text, message] : cases) {
    std::optional<Error> error;
    read(text, error);
    BOOST_REQUIRE_MESSAGE(error.has_value(), text);
    BOOST_TEST(error->message.find(message) != std::string::npos, error->message);
  }
}

namespace {

RopeConfig read_mrope(const std::string& text, std::optional<Error>& error, int32_t d_head = 128) {
  const auto json = nlohmann::json::parse(text);
  FieldReader reader("config.json", json, error);
  return read_mrope_config(reader, 2048, d_head, 1e6);
}

}  // namespace

BOOST_AUTO_TEST_CASE(sections_of_three_axes_are_read_in_every_spelling) {
  std::optional<Error> error;
  const char* spellings[] = {
      R"({"rope_theta": 100, "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}})",
      R"({"rope_scaling": {"type": "mrope", "rope_type": "default", "rope_theta": 100,
          "mrope_section": [4, 6, 6]}})",
      R"({"rope_parameters": {"rope_type": "default", "rope_theta": 100,
          "mrope_section": [4, 6, 6]}})"};
  for (const char* text : spellings) {
    const auto config = read_mrope(text, error, 32);
    BOOST_REQUIRE(!error);
    BOOST_TEST((config.type == RopeConfig::Type::kDefault));
    BOOST_TEST(config.theta == 100.0);
    BOOST_TEST(config.n_axes() == 3);
    BOOST_TEST(std::vector<int32_t>(config.sections, config.sections + 3) ==
               (std::vector<int32_t>{4, 6, 6}));
  }
  const auto absent = read_mrope("{}", error);
  BOOST_REQUIRE(!error);
  BOOST_TEST(absent.theta == 1e6);
  BOOST_TEST(absent.sections[2] == 24);
  const auto yarn = read_mrope(
      R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "mrope_section": [16, 24, 24],
          "original_max_position_embeddings": 512}})",
      error);
  BOOST_REQUIRE(!error);
  BOOST_TEST((yarn.type == RopeConfig::Type::kYarn));
  BOOST_TEST(yarn.n_axes() == 3);
  BOOST_TEST(RopeConfig{}.n_axes() == 1);
}

BOOST_AUTO_TEST_CASE(sections_must_cover_the_head) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 25]}})",
       "config.json: rope_scaling.mrope_section [16, 24, 25] must be three numbers whose sum is "
       "half of the head size, 64"},
      {R"({"rope_scaling": {"type": "mrope", "mrope_section": [32, 32]}})",
       "rope_scaling.mrope_section [32, 32] must be three"},
      {R"({"rope_scaling": {"type": "mrope", "mrope_section": []}})", "mrope_section [] must be"},
      {R"({"rope_scaling": {"type": "mrope", "mrope_section": [80, -8, -8]}})",
       "rope_scaling.mrope_section must hold whole numbers"},
      {R"({"rope_scaling": {"type": "mrope", "mrope_section": "all"}})",
       "rope_scaling.mrope_section must hold whole numbers"},
      {R"({"rope_scaling": {"type": "longrope", "mrope_section": [16, 24, 24]}})",
       "rope_scaling.type \"longrope\" is not supported"},
  };
  for (const auto& [text, message] : cases) {
    std::optional<Error> error;
    read_mrope(text, error);
    BOOST_REQUIRE_MESSAGE(error.has_value(), text);
    BOOST_TEST(error->message.find(message) != std::string::npos, error->message);
  }
  std::optional<Error> error;
  read_mrope("{}", error, 96);
  BOOST_REQUIRE(error.has_value());
  BOOST_TEST(error->message.find("config.json: mrope_section [16, 24, 24] must be") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
