#include "api/tokenize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/json_parser.h"
#include "api/json_writer.h"
#include "api/object_reader.h"
#include "api/response_request.h"

namespace hs {
namespace {

using nlohmann::json;

// What an answer is that nobody gets: the pictures are fetched next, and all begins again.
std::unexpected<Error> not_fetched() {
  return fail(ErrorKind::kUnavailable, "The pictures are being fetched.");
}

// The model is optional: there is one.
void check_model(ObjectReader& body, const ServedModel& model) {
  const std::string* name = body.string("model");
  if (name != nullptr && !model.has_name(*name)) body.fail_with(unknown_model(model));
}

Result<json> parse_object(const HeldBody& body) {
  auto parsed = parse_json(body.text());
  if (parsed && !parsed->is_object())
    return fail(ErrorKind::kInvalidArgument, "The body must be a JSON object.", "invalid_type");
  return parsed;
}

Result<std::vector<int32_t>> tokens_of_chat(ObjectReader& body, const PreparationInput& input) {
  ChatRequest request;
  read_chat_prompt(body, input.body.text(), input.limits.request, request);
  if (body.failed()) return std::unexpected(body.status().error());
  const auto wants = wants_pictures(request, input);
  if (!wants) return std::unexpected(wants.error());
  if (*wants) return not_fetched();
  input.body.release();
  ImageWork work;
  auto prompt = build_prompt(request, input, work);
  if (!prompt) return std::unexpected(prompt.error());
  return std::move(prompt->token_ids);
}

Result<std::vector<int32_t>> tokens_of_text(ObjectReader& body, const PreparationInput& input) {
  const std::string* text = body.string("prompt");
  if (text == nullptr) text = body.string("content");
  if (text == nullptr) body.fail_field("prompt", "'prompt' or 'messages' is missing.");
  const bool add_special_tokens = body.boolean("add_special_tokens").value_or(true);
  if (body.failed()) return std::unexpected(body.status().error());
  auto prompt = input.model.prompts->completion(*text, add_special_tokens);
  if (!prompt) return std::unexpected(prompt.error());
  return std::move(prompt->token_ids);
}

std::string token_strings(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string out = "[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i != 0) out += ',';
    append_json_string(out, tokenizer.token(ids[i]));
  }
  return out + ']';
}

Result<std::string> tokenize(const PreparationInput& input) {
  const auto parsed = parse_object(input.body);
  if (!parsed) return std::unexpected(parsed.error());
  ObjectReader body(*parsed, "");
  check_model(body, input.model);
  const bool with_strings = body.boolean("return_token_strs").value_or(false);
  if (body.failed()) return std::unexpected(body.status().error());
  const auto ids =
      body.any("messages") != nullptr ? tokens_of_chat(body, input) : tokens_of_text(body, input);
  if (!ids) return std::unexpected(ids.error());
  return fmt::format("{{\"count\":{},\"max_model_len\":{},\"tokens\":[{}],\"token_strs\":{}}}",
                     ids->size(), input.model.max_model_len, fmt::join(*ids, ","),
                     with_strings ? token_strings(input.model.prompts->tokenizer(), *ids) : "null");
}

Result<std::vector<int32_t>> read_tokens(ObjectReader& body, const Tokenizer& tokenizer) {
  const json* list = body.any("tokens");
  std::vector<int32_t> ids;
  if (list == nullptr || !list->is_array())
    body.fail_field("tokens", "'tokens' must be a list of token ids.");
  if (body.failed()) return std::unexpected(body.status().error());
  for (const json& value : *list) {
    const bool fits = value.is_number_integer() && value >= 0 && value < tokenizer.size();
    if (!fits) {
      body.fail_field("tokens", fmt::format("'tokens' must hold token ids from 0 to {}.",
                                            tokenizer.size() - 1));
      return std::unexpected(body.status().error());
    }
    ids.push_back(value.get<int32_t>());
  }
  return ids;
}

Result<std::string> detokenize(const PreparationInput& input) {
  const auto parsed = parse_object(input.body);
  if (!parsed) return std::unexpected(parsed.error());
  ObjectReader body(*parsed, "");
  check_model(body, input.model);
  const Tokenizer& tokenizer = input.model.prompts->tokenizer();
  const auto ids = read_tokens(body, tokenizer);
  if (!ids) return std::unexpected(ids.error());
  std::string out = "{\"prompt\":";
  append_json_string(out, tokenizer.decode(*ids, false));
  return out + '}';
}

std::string count_json(const Prompt& prompt) {
  int64_t image_tokens = 0;
  for (const ImageSpan& span : prompt.spans) image_tokens += span.count;
  const auto n = static_cast<int64_t>(prompt.token_ids.size());
  return fmt::format(
      "{{\"object\":\"response.input_tokens\",\"input_tokens\":{},\"input_tokens_details\":"
      "{{\"image_tokens\":{},\"text_tokens\":{}}}}}",
      n, image_tokens, n - image_tokens);
}

// `read` fills in the request from the body.
template <typename Read>
Result<std::string> count(const PreparationInput& input, std::string_view param, const Read& read) {
  const auto parsed = parse_object(input.body);
  if (!parsed) return std::unexpected(parsed.error());
  ObjectReader body(*parsed, "");
  check_model(body, input.model);
  ChatRequest request;
  read(body, request);
  if (body.failed()) return std::unexpected(body.status().error());
  const auto wants = wants_pictures(request, input);
  if (!wants) return std::unexpected(wants.error());
  if (*wants) return not_fetched();
  input.body.release();
  ImageWork work;
  const auto prompt = build_prompt(request, input, work);
  if (prompt) return count_json(*prompt);
  Error error = prompt.error();
  if (error.param == "messages") error.param = param;
  return std::unexpected(std::move(error));
}

HttpResponse to_response(Result<std::string> body) {
  return body ? json_response(200, *std::move(body)) : error_response(body.error());
}

}  // namespace

HttpResponse answer_tokenize(const PreparationInput& input) {
  return to_response(tokenize(input));
}

HttpResponse answer_chat_count(const PreparationInput& input) {
  return to_response(count(input, "messages", [&](ObjectReader& body, ChatRequest& request) {
    read_chat_prompt(body, input.body.text(), input.limits.request, request);
  }));
}

HttpResponse answer_response_count(const PreparationInput& input) {
  return to_response(count(input, "input", [&](ObjectReader& body, ChatRequest& request) {
    ResponseRequest response;
    read_response_prompt(body, input.body.text(), input.limits.request, response);
    request = std::move(response.chat);
  }));
}

HttpResponse answer_detokenize(const PreparationInput& input) {
  return to_response(detokenize(input));
}

}  // namespace hs
