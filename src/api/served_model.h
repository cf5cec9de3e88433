// The model behind the API, as requests see it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/grammar_cache.h"
#include "media/image.h"
#include "model/model.h"

namespace hs {

// A device that the model is on, for people.
struct ServedDevice {
  std::string name;         // as the engine's lanes: "cuda:0"
  std::string description;  // the maker's name and the memory
  bool is_consumer = false;
  bool is_datacenter = false;
  std::string why;  // it was chosen
};

// Immutable while requests are answered; any thread may read. What it points to outlives it.
struct ServedModel {
  std::vector<std::string> names;  // at least one; an answer carries the one that the request used,
                                   // metrics the first
  const ModelSpec* spec = nullptr;
  const PromptBuilder* prompts = nullptr;
  std::shared_ptr<GrammarCache> grammars;
  int32_t max_model_len = 0;
  int64_t created_s = 0;  // unix time of the load
  std::vector<ServedDevice> devices;
  std::string partition;    // "modality"
  std::string fingerprint;  // of program and weights, e.g. "fp_0123abcd"

  bool has_name(std::string_view name) const;
};

// The grammars over a model's vocabulary. Special tokens have no part in a text, but those that
// calls of functions are made of (tool_grammar.h).
std::shared_ptr<GrammarCache> make_grammars(const ModelSpec& spec, const Tokenizer& tokenizer);

// kNotFound "model_not_found", listing the names that are served.
Error unknown_model(const ServedModel& model);

}  // namespace hs
