#include "api/response_answer.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "api/json_writer.h"
#include "text/tool_call_parser.h"

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
      : head_(head), tokenizer_(tokenizer), shape_(std::move(shape)) {
    if (shape_.calls.format != nullptr)
      parser_.emplace(*shape_.calls.format, shape_.calls.only_first);
  }

  std::string begin() override {
    const std::string response = response_json("in_progress", "[]", "null", nullptr, "");
    // One after the other: each takes the next number.
    std::string out = event("response.created", "\"response\":" + response);
    out += event("response.in_progress", "\"response\":" + response);
    if (!parser_) open_message(out);
    return out;
  }

  std::string text(int32_t /*choice*/, std::string_view text,
                   std::span<const TokenLogprob> logprobs, const RequestUsage* /*usage*/) override {
    std::string out;
    append_logprobs(entries_, tokenizer_, logprobs);
    if (!parser_) {
      if (!text.empty() || !entries_.empty()) add_text(text, out);
    } else {
      for (const Piece& piece : parser_->push(text)) take(piece, out);
    }
    return out;
  }

  std::string finish(int32_t /*choice*/, FinishReason reason, std::string_view /*stop*/,
                     const RequestUsage* /*usage*/) override {
    std::string out;
    if (parser_)
      for (const Piece& piece : parser_->finish()) take(piece, out);
    // Of tokens without text of their own.
    if (!entries_.empty() && !items_.empty() && !items_.back().is_call && !items_.back().is_done)
      add_text("", out);
    if (items_.empty()) open_message(out);
    reason_ = reason;
    close_item(status(), out);
    return out;
  }

  std::string_view reason_word(int32_t /*choice*/, FinishReason reason) const override {
    const bool calls = parser_ && parser_->complete() && reason == FinishReason::kStop;
    return calls ? "tool_calls" : finish_word(reason);
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
    for (Item& item : items_)
      if (!item.is_done) item.status = "incomplete";
    const bool said = !items_.empty() && (items_.front().is_call || !items_.front().text.empty());
    return event("response.failed",
                 "\"response\":" +
                     response_json("failed", said ? output_json() : "[]", object, nullptr, ""));
  }

  std::string whole(const RequestUsage& usage, std::string_view timings) override {
    return response_json(status(), output_json(), "null", &usage, timings);
  }

 private:
  using Piece = ToolCallParser::Piece;
  struct Item {
    bool is_call = false;
    bool is_done = false;
    std::string id;
    std::string text;      // or the call's arguments
    std::string logprobs;  // entries, separated by commas
    std::string name;      // of a call, as its id for the client
    std::string call_id;
    std::string_view status = "in_progress";
  };

  std::string_view status() const {
    return reason_ == FinishReason::kLength ? "incomplete" : "completed";
  }

  // Every event carries its type twice, as the standard's event field and in the data. "" where the
  // answer is sent whole.
  std::string event(std::string_view type, std::string_view fields) {
    if (!shape_.stream) return {};
    return fmt::format("event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1},{2}}}\n\n",
                       type, n_events_++, fields);
  }

  // ---- items; the last one is open until it is done

  void take(const Piece& piece, std::string& out) {
    switch (piece.kind) {
      case Piece::Kind::kText:
        return add_text(piece.text, out);
      case Piece::Kind::kCall:
        return open_call(piece.text, out);
      case Piece::Kind::kArguments:
        items_.back().text += piece.text;
        out += event("response.function_call_arguments.delta",
                     place() + ",\"delta\":" + json_string(piece.text));
        return;
      case Piece::Kind::kEnd:
        return close_item("completed", out);
    }
  }

  Item& add_item(std::string_view prefix) {
    items_.emplace_back();
    items_.back().id =
        fmt::format("{}_{}{:04x}", prefix, head_.id.substr(0, 20), items_.size() - 1);
    return items_.back();
  }

  void open_message(std::string& out) {
    add_item("msg");
    out += event("response.output_item.added", item_event("[]"));
    out += event("response.content_part.added", part_place() + ",\"part\":" + part_json("", ""));
  }

  void open_call(const std::string& name, std::string& out) {
    if (!items_.empty()) close_item("completed", out);
    entries_.clear();
    Item& item = add_item("fc");
    item.is_call = true;
    item.name = name;
    item.call_id = tool_call_id(head_, 0, n_calls_++);
    out += event("response.output_item.added", item_event(""));
  }

  void add_text(std::string_view text, std::string& out) {
    if (items_.empty() || items_.back().is_call) {
      if (!items_.empty()) close_item("completed", out);
      open_message(out);
    }
    Item& item = items_.back();
    item.text += text;
    const std::string entries = std::exchange(entries_, {});
    if (!entries.empty()) item.logprobs += (item.logprobs.empty() ? "" : ",") + entries;
    out += event(
        "response.output_text.delta",
        fmt::format("{},\"delta\":{},\"logprobs\":[{}]", part_place(), json_string(text), entries));
  }

  void close_item(std::string_view status, std::string& out) {
    Item& item = items_.back();
    if (std::exchange(item.is_done, true)) return;
    item.status = status;
    if (item.is_call) {
      out += event("response.function_call_arguments.done",
                   fmt::format("{},\"name\":{},\"arguments\":{}", place(), json_string(item.name),
                               json_string(item.text)));
    } else {
      out += event("response.output_text.done",
                   fmt::format("{},\"text\":{},\"logprobs\":[{}]", part_place(),
                               json_string(item.text), item.logprobs));
      out += event("response.content_part.done",
                   part_place() + ",\"part\":" + part_json(item.text, item.logprobs));
    }
    out += event("response.output_item.done", item_event(content(item)));
  }

  std::string place() const {
    return fmt::format("\"item_id\":\"{}\",\"output_index\":{}", items_.back().id,
                       items_.size() - 1);
  }
  std::string part_place() const { return place() + ",\"content_index\":0"; }

  static std::string part_json(std::string_view text, std::string_view logprobs) {
    return fmt::format(
        "{{\"type\":\"output_text\",\"text\":{},\"annotations\":[],\"logprobs\":[{}]}}",
        json_string(text), logprobs);
  }

  // What an item holds, in its own words: a message's parts, a call's arguments.
  static std::string content(const Item& item) {
    return item.is_call ? item.text : "[" + part_json(item.text, item.logprobs) + "]";
  }

  std::string item_event(std::string_view content) const {
    return fmt::format("\"output_index\":{},\"item\":{}", items_.size() - 1,
                       item_json(items_.back(), content));
  }

  static std::string item_json(const Item& item, std::string_view content) {
    if (item.is_call)
      return fmt::format(
          R"({{"id":"{}","type":"function_call","status":"{}","call_id":"{}","name":{},)"
          R"("arguments":{}}})",
          item.id, item.status, item.call_id, json_string(item.name), json_string(content));
    return fmt::format(
        "{{\"id\":\"{}\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"{}\",\"content\":"
        "{}}}",
        item.id, item.status, content);
  }

  std::string output_json() const {
    return "[" +
           json_list(items_, [](const Item& item) { return item_json(item, content(item)); }) + "]";
  }

  std::string response_json(std::string_view status, std::string_view output,
                            std::string_view error, const RequestUsage* usage,
                            std::string_view timings) const {
    std::string out = fmt::format(
        "{{\"id\":\"resp_{}\",\"object\":\"response\",\"created_at\":{},\"status\":\"{}\","
        "\"background\":"
        "false,\"error\":{},\"incomplete_details\":{},\"instructions\":{},\"max_output_tokens\":{},"
        "\"model\":{},\"output\":{},\"parallel_tool_calls\":{},\"previous_response_id\":null,"
        "\"reasoning\":{{\"effort\":null,\"summary\":null}},\"store\":false,\"temperature\":",
        head_.id, head_.created_s, status, error,
        status == "incomplete" ? "{\"reason\":\"max_output_tokens\"}" : "null",
        shape_.instructions ? json_string(*shape_.instructions) : "null",
        number_or_null(shape_.max_output_tokens), json_string(head_.model), output,
        shape_.parallel_tool_calls);
    append_json_number(out, shape_.temperature);
    out += ",\"top_p\":";
    append_json_number(out, shape_.top_p);
    out += ",\"text\":{\"format\":" + shape_.format_json;
    out += "},\"tool_choice\":" + shape_.tool_choice_json + ",\"tools\":" + shape_.tools_json;
    out += ",\"top_logprobs\":";
    out += std::to_string(shape_.n_logprobs > 0 ? shape_.n_logprobs : 0);
    out += ",\"truncation\":\"disabled\",\"metadata\":" + shape_.metadata_json;
    if (usage != nullptr) out += ",\"usage\":" + response_usage_json(*usage);
    if (!timings.empty()) fmt::format_to(std::back_inserter(out), ",\"timings\":{}", timings);
    return out + '}';
  }

  const AnswerHead head_;
  const Tokenizer& tokenizer_;
  const ResponseShape shape_;
  std::optional<ToolCallParser> parser_;  // where calls are looked for
  int64_t n_events_ = 0;
  size_t n_calls_ = 0;
  std::vector<Item> items_;
  std::string entries_;  // log-probabilities of tokens whose text has not come
  FinishReason reason_ = FinishReason::kStop;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_response_answer(const AnswerHead& head,
                                                   const Tokenizer& tokenizer,
                                                   ResponseShape shape) {
  return std::make_unique<ResponseAnswer>(head, tokenizer, std::move(shape));
}

}  // namespace hs
