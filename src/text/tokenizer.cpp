#include "text/tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text/bpe_tokenizer.h"
#include "text/json_fields.h"

namespace hs {
namespace {

constexpr size_t kTokenizerBytesMax = size_t{256} << 20;
constexpr size_t kConfigBytesMax = size_t{16} << 20;

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& dir) {
  const auto text = read_text_file(dir / "tokenizer.json", kTokenizerBytesMax);
  if (!text) return std::unexpected(text.error());
  const auto config = read_text_file(dir / "tokenizer_config.json", kConfigBytesMax);
  if (!config && config.error().kind != ErrorKind::kNotFound)
    return std::unexpected(config.error());
  auto tokenizer = parse(*text, config ? std::string_view(*config) : std::string_view());
  if (!tokenizer)
    tokenizer.error().message = fmt::format("{}: {}", dir.string(), tokenizer.error().message);
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view tokenizer_json,
                                                    std::string_view tokenizer_config_json) {
  const auto json = json_parse(tokenizer_json, "tokenizer.json");
  if (!json) return std::unexpected(json.error());
  nlohmann::json config;
  if (!tokenizer_config_json.empty()) {
    auto parsed = json_parse(tokenizer_config_json, "tokenizer_config.json");
    if (!parsed) return std::unexpected(parsed.error());
    config = std::move(*parsed);
  }
  return BpeTokenizer::build(*json, config);
}

}  // namespace hs
