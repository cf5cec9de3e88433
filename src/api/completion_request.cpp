#include "api/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/json_parser.h"
#include "api/object_reader.h"

namespace hs {
namespace {

using nlohmann::json;

constexpr int32_t kDefaultMaxTokens = 16;  // OpenAI's
constexpr int64_t kLogprobsMax = 5;

CompletionPrompt text_prompt(std::string text) {
  return {.text = std::move(text), .token_ids = {}, .is_tokens = false};
}

bool is_token_list(const json& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const json& id) { return id.is_number(); });
}

// Errors go to `body`; the ids are compared with the vocabulary by whoever knows it.
void add_tokens(ObjectReader& body, const json& list, std::vector<CompletionPrompt>& prompts) {
  const json holder = {{"prompt", list}};
  ObjectReader reader(holder, "");
  std::vector<int32_t> ids = read_token_ids(reader, "prompt", INT32_MAX);
  if (reader.failed()) return body.fail_with(reader.status().error());
  prompts.push_back({.text = "", .token_ids = std::move(ids), .is_tokens = true});
}

void read_prompt(ObjectReader& body, const RequestLimits& limits,
                 std::vector<CompletionPrompt>& prompts) {
  const json* value = body.any("prompt");
  if (value == nullptr) return body.fail_field("prompt", "'prompt' is missing.");
  if (value->is_string()) return prompts.push_back(text_prompt(value->get<std::string>()));
  if (is_token_list(*value)) return add_tokens(body, *value, prompts);
  constexpr const char* kForms =
      "'prompt' must be a string, a list of strings, a list of token ids, or a list of such lists, "
      "and not empty.";
  if (!value->is_array() || value->empty()) return body.fail_field("prompt", kForms);
  if (value->size() > limits.prompts_max)
    return body.fail_field(
        "prompt", fmt::format("'prompt' holds {} prompts; at most {} are allowed.", value->size(),
                              limits.prompts_max));
  for (const json& one : *value) {
    if (one.is_string())
      prompts.push_back(text_prompt(one.get<std::string>()));
    else if (is_token_list(one))
      add_tokens(body, one, prompts);
    else
      return body.fail_field("prompt", kForms);
  }
}

void read_completion_only(ObjectReader& body, CompletionRequest& request) {
  request.echo = body.boolean("echo").value_or(false);
  request.add_special_tokens = body.boolean("add_special_tokens").value_or(true);
  request.sampling.max_tokens = read_count(body, "max_tokens", 0).value_or(kDefaultMaxTokens);
  // Older clients ask with false for none.
  const json* logprobs = body.any("logprobs");
  if (logprobs != nullptr && *logprobs != false)
    if (const auto n = body.integer("logprobs", 0, kLogprobsMax))
      request.sampling.n_logprobs = static_cast<int32_t>(*n);
  const auto best_of = body.integer("best_of", 0, 20);
  if (best_of && *best_of > 1 && *best_of != request.sampling.n)
    body.fail_field("best_of", "'best_of' other than n is not supported.", ErrorKind::kUnsupported,
                    "unsupported_parameter");
  const json* suffix = body.any("suffix");
  if (suffix != nullptr && *suffix != "")
    body.fail_field("suffix", "'suffix' is not supported: the models served here only continue.",
                    ErrorKind::kUnsupported, "unsupported_parameter");
}

}  // namespace

Status parse_completion_request(std::string_view text, const RequestLimits& limits,
                                CompletionRequest& request) {
  const Result<json> parsed = parse_json(text);
  if (!parsed) return std::unexpected(parsed.error());
  if (!parsed->is_object())
    return fail(ErrorKind::kInvalidArgument, "The body must be a JSON object.", "invalid_type");
  ObjectReader body(*parsed, "");
  read_labels(body, request.labels);
  read_prompt(body, limits, request.prompts);
  read_sampling(body, limits, request.sampling);
  read_completion_only(body, request);
  read_response_format(body, text, request.sampling.form);
  read_structured_outputs(body, text, request.sampling.form);
  read_stream(body, request.stream);
  refuse_unsupported(body);
  accept_ignored(body);
  body.any("store");
  const auto n_choices = request.prompts.size() * static_cast<size_t>(request.sampling.n);
  if (n_choices > limits.prompts_max && !body.failed())
    body.fail_field("n",
                    fmt::format("{} prompts with {} choices each are more than the {} answers "
                                "that one request may ask for.",
                                request.prompts.size(), request.sampling.n, limits.prompts_max));
  if (body.failed()) return body.status();
  request.labels.unknown_fields = body.unknown();
  return {};
}

}  // namespace hs
