#include "api/served_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "grammar/tool_grammar.h"
#include "text/tool_format.h"

namespace hs {

bool ServedModel::has_name(std::string_view name) const {
  return std::ranges::find(names, name) != names.end();
}

std::shared_ptr<GrammarCache> make_grammars(const ModelSpec& spec, const Tokenizer& tokenizer) {
  std::vector<std::string> bytes(static_cast<size_t>(spec.vocab_size));
  const int32_t n = std::min(tokenizer.size(), spec.vocab_size);
  for (int32_t id = 0; id < n; ++id) {
    if (tokenizer.is_special(id)) continue;
    std::string text = tokenizer.token_bytes(id);
    // What no text has would look like a control token.
    if (text.find(kControlByte) == text.npos) bytes[static_cast<size_t>(id)] = std::move(text);
  }
  for (const std::string_view marker : kToolMarkers) {
    const auto id = tokenizer.id_of(marker);
    if (id && *id < n && tokenizer.is_special(*id))
      bytes[static_cast<size_t>(*id)] = kControlByte + std::string(marker);
  }
  return std::make_shared<GrammarCache>(std::move(bytes), spec.eos_ids,
                                        tokenizer.strips_leading_space());
}

Error unknown_model(const ServedModel& model) {
  return {ErrorKind::kNotFound,
          fmt::format("The model does not exist here. Served: {}.", fmt::join(model.names, ", ")),
          "model_not_found", "model"};
}

}  // namespace hs
