#include "api/response_answer.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <utility>

#include "api/errors.h"
#include "api/json_writer.h"

namespace hs {
namespace {

template <typename T>
std::string number_or_null(const std::optional<T>& value) {
  return value ? std::to_string(*value) : "null";
}

std::string response_usage_json(const RequestUsage& usage) {
  return fmt::format(
      "{{\"input_tokens\":{},\"input_tokens_details\":{{\"cached_tokens\":{},\"cache_write_"
      "tokens\":0,"
      "\"image_tokens\":{},\"text_tokens\":{}}},\"output_tokens\":{},\"output_tokens_details\":"
      "{{\"reasoning_tokens\":0}},\"total_tokens\":{}}}",
      usage.prompt_tokens, usage.cached_tokens, usage.image_tokens,
      usage.prompt_tokens - usage.image_tokens, usage.completion_tokens,
      usage.prompt_tokens + usage.completion_tokens);
}

class ResponseAnswer final : public AnswerFormat {
 public:
  ResponseAnswer(const AnswerHead& head, const Tokenizer& tokenizer, ResponseShape shape)
      : head_(head), tokenizer_(tokenizer), shape_(std::move(shape)), item_id_("msg_" + head.id) {}

  std::string begin() override {
    const std::string response = response_json("in_progress", "[]", "null", nullptr, "");
    // One after the other: each takes the next number.
    std::string out = event("response.created", "\"response\":" + response);
    out += event("response.in_progress", "\"response\":" + response);
    out += event("response.output_item.added",
                 "\"output_index\":0,\"item\":" + item_json("in_progress", "[]"));
    out += event("response.content_part.added", place() + ",\"part\":" + part_json("", ""));
    return out;
  }

  std::string text(int32_t /*choice*/, std::string_view text,
                   std::span<const TokenLogprob> logprobs, const RequestUsage* /*usage*/) override {
    text_ += text;
    std::string entries;
    append_logprobs(entries, tokenizer_, logprobs);
    if (!entries.empty()) logprobs_ += (logprobs_.empty() ? "" : ",") + entries;
    if (!shape_.stream || (text.empty() && entries.empty())) return {};
    return event("response.output_text.delta", fmt::format("{},\"delta\":{},\"logprobs\":[{}]",
                                                           place(), json_string(text), entries));
  }

  std::string finish(int32_t /*choice*/, FinishReason reason, std::string_view /*stop*/,
                     const RequestUsage* /*usage*/) override {
    reason_ = reason;
    if (!shape_.stream) return {};
    std::string out = event(
        "response.output_text.done",
        fmt::format("{},\"text\":{},\"logprobs\":[{}]", place(), json_string(text_), logprobs_));
    out +=
        event("response.content_part.done", place() + ",\"part\":" + part_json(text_, logprobs_));
    out += event("response.output_item.done",
                 "\"output_index\":0,\"item\":" + item_json(status(), content()));
    return out;
  }

  std::string end(const RequestUsage& usage, std::string_view timings) override {
    return event(reason_ == FinishReason::kLength ? "response.incomplete" : "response.completed",
                 "\"response\":" + whole(usage, timings));
  }

  std::string error(const Error& error) override {
    const int status = http_status(error);
    std::string_view code = "server_error";
    if (status == 429) code = "rate_limit_exceeded";
    if (status == 400) code = error.code == "invalid_image" ? "invalid_image" : "invalid_prompt";
    const std::string message =
        status == 500 ? "The server failed to answer this request." : error.message;
    const std::string object =
        fmt::format("{{\"code\":\"{}\",\"message\":{}}}", code, json_string(message));
    const std::string output =
        text_.empty() ? "[]" : "[" + item_json("incomplete", content()) + "]";
    return event("response.failed",
                 "\"response\":" + response_json("failed", output, object, nullptr, ""));
  }

  std::string whole(const RequestUsage& usage, std::string_view timings) override {
    return response_json(status(), "[" + item_json(status(), content()) + "]", "null", &usage,
                         timings);
  }

 private:
  std::string_view status() const {
    return reason_ == FinishReason::kLength ? "incomplete" : "completed";
  }

  // Every event carries its type twice, as the standard's event field and in the data.
  std::string event(std::string_view type, std::string_view fields) {
    return fmt::format("event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1},{2}}}\n\n",
                       type, n_events_++, fields);
  }

  std::string place() const {
    return fmt::format("\"item_id\":\"{}\",\"output_index\":0,\"content_index\":0", item_id_);
  }

  static std::string part_json(std::string_view text, std::string_view logprobs) {
    return fmt::format(
        "{{\"type\":\"output_text\",\"text\":{},\"annotations\":[],\"logprobs\":[{}]}}",
        json_string(text), logprobs);
  }

  std::string content() const { return "[" + part_json(text_, logprobs_) + "]"; }

  std::string item_json(std::string_view status, std::string_view content) const {
    return fmt::format(
        "{{\"id\":\"{}\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"{}\",\"content\":"
        "{}}}",
        item_id_, status, content);
  }

  std::string response_json(std::string_view status, std::string_view output,
                            std::string_view error, const RequestUsage* usage,
                            std::string_view timings) const {
    std::string out = fmt::format(
        "{{\"id\":\"resp_{}\",\"object\":\"response\",\"created_at\":{},\"status\":\"{}\","
        "\"background\":"
        "false,\"error\":{},\"incomplete_details\":{},\"instructions\":{},\"max_output_tokens\":{},"
        "\"model\":{},\"output\":{},\"parallel_tool_calls\":true,\"previous_response_id\":null,"
        "\"reasoning\":{{\"effort\":null,\"summary\":null}},\"store\":false,\"temperature\":",
        head_.id, head_.created_s, status, error,
        status == "incomplete" ? "{\"reason\":\"max_output_tokens\"}" : "null",
        shape_.instructions ? json_string(*shape_.instructions) : "null",
        number_or_null(shape_.max_output_tokens), json_string(head_.model), output);
    append_json_number(out, shape_.temperature);
    out += ",\"top_p\":";
    append_json_number(out, shape_.top_p);
    out += ",\"text\":{\"format\":" + shape_.format_json;
    out += "},\"tool_choice\":\"auto\",\"tools\":[],\"top_logprobs\":";
    out += std::to_string(shape_.n_logprobs > 0 ? shape_.n_logprobs : 0);
    out += ",\"truncation\":\"disabled\",\"metadata\":" + shape_.metadata_json;
    if (usage != nullptr) out += ",\"usage\":" + response_usage_json(*usage);
    if (!timings.empty()) fmt::format_to(std::back_inserter(out), ",\"timings\":{}", timings);
    return out + '}';
  }

  const AnswerHead head_;
  const Tokenizer& tokenizer_;
  const ResponseShape shape_;
  const std::string item_id_;
  int64_t n_events_ = 0;
  std::string text_;
  std::string logprobs_;  // entries, separated by commas
  FinishReason reason_ = FinishReason::kStop;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_response_answer(const AnswerHead& head,
                                                   const Tokenizer& tokenizer,
                                                   ResponseShape shape) {
  return std::make_unique<ResponseAnswer>(head, tokenizer, std::move(shape));
}

}  // namespace hs
