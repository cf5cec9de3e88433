// Any bytes as an answer with calls, cut anywhere: the same pieces as whole, and calls that are
// complete have arguments with balanced brackets.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/tool_call_parser.h"

namespace {

// What comes out, with a mark before each part that is not text.
std::string read(hs::ToolCallParser parser, std::string_view text, size_t step) {
  std::string out;
  bool in_text = false;
  const auto take = [&](const std::vector<hs::ToolCallParser::Piece>& pieces) {
    for (const auto& piece : pieces) {
      using Kind = hs::ToolCallParser::Piece::Kind;
      if (piece.kind == Kind::kCall) out += "\x01";
      if (piece.kind == Kind::kEnd) out += "\x02";
      if (piece.kind == Kind::kText && !in_text) out += "\x03";
      in_text = piece.kind == Kind::kText;
      out += piece.text;
    }
  };
  for (size_t i = 0; i < text.size(); i += step) take(parser.push(text.substr(i, step)));
  take(parser.finish());
  HS_CHECK(!parser.complete() || parser.n_calls() > 0);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const hs::ToolFormat& format = data[0] % 2 == 0 ? hs::hermes_tools() : hs::llama_tools();
  const hs::ToolCallParser parser(format, data[0] % 4 < 2);
  const std::string whole = read(parser, text, text.size() + 1);
  HS_CHECK(read(parser, text, 1) == whole);
  HS_CHECK(read(parser, text, data[0] % 7 + 2) == whole);
  return 0;
}
