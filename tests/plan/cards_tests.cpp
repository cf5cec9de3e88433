// The shipped cards can be read and name their sources; whatever is wrong in an edited file is
// refused in one line with file, line and field.
#include <boost/test/unit_test.hpp>
#include <string>

#include "plan/cards.h"
#include "plan/shipped_data.h"

namespace hs::test {
namespace {

constexpr const char* kOne = R"([cards.mine]
pool = "consumer"
tflops = 100
bandwidth_gbs = 1000.0
memory_gb = 24
power_w = 300
pcie_generation = 4
price_usd = 1000
)";

std::string refusal(const std::string& toml) {
  const auto catalogue = read_catalogue(toml, "mine.toml");
  BOOST_REQUIRE(!catalogue.has_value());
  BOOST_TEST(catalogue.error().message.find('\n') == std::string::npos);
  return catalogue.error().message;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  BOOST_REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cards_tests)

BOOST_AUTO_TEST_CASE(shipped_cards_are_complete_and_name_their_sources) {
  const auto catalogue = read_catalogue(shipped_cards_toml(), "cards.toml");
  BOOST_REQUIRE_MESSAGE(catalogue.has_value(), catalogue.error().message);
  for (const char* key : {"rtx4090", "a100-40", "a100-80", "l40s", "h100"}) {
    const auto card = catalogue->card(key);
    BOOST_REQUIRE_MESSAGE(card.has_value(), key);
    BOOST_TEST(!card->source.empty(), key);
    BOOST_TEST(card->price_usd > 0, key);
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_card_is_answered_with_those_that_are_known) {
  const auto catalogue = read_catalogue(kOne, "mine.toml");
  BOOST_REQUIRE_MESSAGE(catalogue.has_value(), catalogue.error().message);
  const auto card = catalogue->card("rtx9090");
  BOOST_REQUIRE(!card.has_value());
  BOOST_TEST(card.error().message == "card: \"rtx9090\" is not known (known: mine)");
}

BOOST_AUTO_TEST_CASE(wrong_fields_are_named_with_their_line) {
  BOOST_TEST(refusal(with(kOne, "price_usd = 1000", "price_usd = -1")) ==
             "mine.toml:8: cards.mine.price_usd must be a number from 0 to 1000000000");
  BOOST_TEST(refusal(with(kOne, "tflops = 100", "tflops = nan")).find("cards.mine.tflops") !=
             std::string::npos);
  BOOST_TEST(refusal(with(kOne, "power_w = 300\n", "")) ==
             "mine.toml:1: cards.mine.power_w is missing");
  BOOST_TEST(refusal(with(kOne, "\"consumer\"", "\"toy\"")).find("cards.mine.pool") !=
             std::string::npos);
  BOOST_TEST(refusal(with(kOne, "tflops", "tflopps")).find("cards.mine.tflops is missing") !=
             std::string::npos);
  BOOST_TEST(refusal(std::string(kOne) + "colour = \"red\"\n") ==
             "mine.toml:9: cards.mine.colour is not known here");
  BOOST_TEST(
      refusal(std::string(kOne) + "[efficiency]\nlanguage = 1.5\n").find("efficiency.language") !=
      std::string::npos);
  BOOST_TEST(refusal(std::string(kOne) + "[prices]\n").find("prices is not known") !=
             std::string::npos);
  BOOST_TEST(refusal("[cards").find("mine.toml:1") != std::string::npos);
  BOOST_TEST(refusal("").find("cards is missing") != std::string::npos);
  BOOST_TEST(refusal("cards = [1]").find("cards") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
