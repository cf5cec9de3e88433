// Every spelling of a data URL that RFC 2397 and browsers allow gives the same bytes; anything else
// says what works.
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>

#include "media/image.h"

using namespace hs;

namespace {

std::string text_of(const Result<std::vector<std::byte>>& bytes) {
  if (!bytes) return "error " + bytes.error().code;
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

std::string decoded(std::string_view url, size_t bytes_max = 1 << 20) {
  return text_of(decode_data_url(url, bytes_max));
}

// The plain definition of RFC 4648, bit by bit.
std::string naive_base64(std::string_view bytes, bool url_safe, bool padded) {
  std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (url_safe) digits.replace(62, 2, "-_");
  std::string bits;
  for (const char c : bytes)
    for (int bit = 7; bit >= 0; --bit) bits += ((c >> bit) & 1) != 0 ? '1' : '0';
  while (bits.size() % 6 != 0) bits += '0';
  std::string out;
  for (size_t i = 0; i < bits.size(); i += 6)
    out += digits[std::stoul(bits.substr(i, 6), nullptr, 2)];
  while (padded && out.size() % 4 != 0) out += '=';
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_url_tests)

BOOST_AUTO_TEST_CASE(vectors_of_rfc_4648_decode) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"Zg==", "f"},
                                                         {"Zm8=", "fo"},
                                                         {"Zm9v", "foo"},
                                                         {"Zm9vYg==", "foob"},
                                                         {"Zm9vYmE=", "fooba"},
                                                         {"Zm9vYmFy", "foobar"}};
  for (const auto& [encoded, plain] : vectors)
    BOOST_TEST(decoded(std::string("data:image/png;base64,") + encoded) == plain);
}

BOOST_AUTO_TEST_CASE(all_spellings_of_one_picture_are_equal) {
  for (const char* url : {
           "data:image/png;base64,/+8Ab2s=",
           "data:image/png;charset=utf-8;base64,/+8Ab2s=",
           "data:image/png;name=a.png;base64,/+8Ab2s=",
           "DATA:IMAGE/PNG;BASE64,/+8Ab2s=",
           "data:image/png;base64,/+8A\nb2\r\n s=\t",
           "data:image/png;base64,_-8Ab2s=",
           "data:image/png;base64,/+8Ab2s",
           "data:;base64,/+8Ab2s=",
           "data:image/png; base64 ,/+8Ab2s=",
           " data:image/png;base64,/+8Ab2s= \n",
           "data:image/png;base64,%2F%2b8Ab2s%3D",
           "data:image/png,%FF%EF%00ok",
           "data:,%ff%ef%00ok",
       })
    BOOST_TEST(decoded(url) == std::string("\xFF\xEF\0ok", 5), url);
}

BOOST_AUTO_TEST_CASE(empty_payload_is_no_bytes) {
  BOOST_TEST(decoded("data:image/png;base64,") == "");
  BOOST_TEST(decoded("data:,") == "");
}

BOOST_AUTO_TEST_CASE(malformed_urls_are_refused) {
  for (const char* url : {
           "",
           "data",
           "data:",
           "data:image/png;base64",
           "data:image/png;base64,Zm9v!",
           "data:image/png;base64,Zm9vY",     // a lone digit
           "data:image/png;base64,Zg==Zg==",  // data behind padding
           "data:image/png;base64,Zg=\n= x",
           "data:image/png;base64,Zg====",
           "data:image/png;base64,Zm\xC3\xA9v",
           "data:image/png,%F",
           "data:image/png,%GG",
           "data:image/png;base64,%4",
       })
    BOOST_TEST(decoded(url) == "error invalid_image_url", url);
}

BOOST_AUTO_TEST_CASE(other_sources_are_told_what_works) {
  const auto message = [](std::string_view url) {
    return decode_data_url(url, 100).error().message;
  };
  BOOST_TEST(message("https://example.com/a.png").find("not fetched") != std::string::npos);
  BOOST_TEST(message("HTTP://example.com/a.png").find("not fetched") != std::string::npos);
  BOOST_TEST(message("file:///etc/passwd").find("Files are not read") != std::string::npos);
  BOOST_TEST(message("iVBORw0KGgo=").find("must be a data URL") != std::string::npos);
  for (const char* url :
       {"https://example.com/a.png", "file:///etc/passwd", "iVBORw0KGgo=", "data:x"})
    BOOST_TEST(message(url).find("data:image/png;base64,...") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(limit_holds_to_the_byte) {
  for (size_t n = 0; n < 40; ++n) {
    const std::string plain(n, 'x');
    std::string spaced;
    for (const char c : naive_base64(plain, false, true)) (spaced += c) += ' ';
    for (const std::string& url : {"data:;base64," + naive_base64(plain, false, true),
                                   "data:;base64," + spaced, "data:," + plain}) {
      BOOST_TEST(decoded(url, n) == plain);
      BOOST_TEST(decoded(url, n + 1) == plain);
      if (n > 0) BOOST_TEST(decoded(url, n - 1) == "error image_too_large");
    }
  }
  BOOST_TEST((decode_data_url("data:,xx", 1).error().kind == ErrorKind::kTooLarge));
}

BOOST_AUTO_TEST_CASE(random_bytes_survive_every_encoding) {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::string plain;
    for (size_t n = random() % 200; n > 0; --n) plain += static_cast<char>(random());
    const bool url_safe = random() % 2 == 0;
    std::string encoded = naive_base64(plain, url_safe, random() % 2 == 0);
    for (size_t n = random() % 6; n > 0; --n)
      encoded.insert(random() % (encoded.size() + 1), 1, " \t\r\n"[random() % 4]);
    BOOST_TEST_REQUIRE(decoded("data:image/jpeg;base64," + encoded) == plain,
                       "seed " << seed << ", round " << round);
  }
}

// The whole input is checked, wherever the wrong character is.
BOOST_AUTO_TEST_CASE(one_wrong_character_anywhere_is_found) {
  const std::string good = naive_base64(std::string(60, 'q'), false, true);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = '*';
    BOOST_TEST(decoded("data:;base64," + bad) == "error invalid_image_url");
  }
}

BOOST_AUTO_TEST_SUITE_END()
