#include "api/chat_answer.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/json_writer.h"
#include "http/sse.h"
#include "text/tool_call_parser.h"

namespace hs {
namespace {

void append_head(std::string& out, const AnswerHead& head, std::string_view object) {
  out += "{\"id\":";
  append_json_string(out, "chatcmpl-" + head.id);
  fmt::format_to(std::back_inserter(out), ",\"object\":\"{}\",\"created\":{},\"model\":", object,
                 head.created_s);
  append_json_string(out, head.model);
  out += ",\"system_fingerprint\":";
  append_json_string(out, head.fingerprint);
  out += ",\"choices\":[";
}

void append_logprobs_field(std::string& out, bool wanted, std::string_view entries) {
  if (wanted)
    fmt::format_to(std::back_inserter(out), ",\"logprobs\":{{\"content\":[{}],\"refusal\":null}}",
                   entries);
  else
    out += ",\"logprobs\":null";
}

void append_finish(std::string& out, std::string_view word, std::string_view stop) {
  fmt::format_to(std::back_inserter(out), ",\"finish_reason\":\"{}\"", word);
  if (!stop.empty()) {
    out += ",\"stop_reason\":";
    append_json_string(out, stop);
  }
}

class ChatAnswer final : public AnswerFormat {
 public:
  ChatAnswer(const AnswerHead& head, const Tokenizer& tokenizer, int32_t n_choices,
             bool with_logprobs, const StreamFields& stream, const CallRules& calls)
      : head_(head),
        tokenizer_(tokenizer),
        with_logprobs_(with_logprobs),
        stream_(stream),
        choices_(static_cast<size_t>(n_choices)) {
    if (calls.format != nullptr)
      for (Choice& choice : choices_) choice.parser.emplace(*calls.format, calls.only_first);
    if (!stream_.stream) return;
    prefix_ = "data: ";
    append_head(prefix_, head_, "chat.completion.chunk");
  }

  std::string text(int32_t index, std::string_view text, std::span<const TokenLogprob> logprobs,
                   const RequestUsage* usage) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    std::vector<Piece> pieces;
    if (choice.parser)
      pieces = choice.parser->push(text);
    else if (!text.empty())
      pieces.push_back({Piece::Kind::kText, std::string(text)});
    if (!stream_.stream) {
      keep(choice, pieces);
      append_logprobs(choice.logprobs, tokenizer_, logprobs);
      return {};
    }
    std::string out = role(index, usage);
    std::string entries;
    append_logprobs(entries, tokenizer_, logprobs);
    append_chunks(out, index, pieces, entries, usage);
    return out;
  }

  std::string finish(int32_t index, FinishReason reason, std::string_view stop,
                     const RequestUsage* usage) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.reason = reason;
    choice.stop = stop;
    std::vector<Piece> pieces;
    if (choice.parser) pieces = choice.parser->finish();
    if (!stream_.stream) {
      keep(choice, pieces);
      return {};
    }
    std::string out = role(index, usage);
    append_chunks(out, index, pieces, "", usage);
    begin_choice(out, index);
    out += "},\"logprobs\":null";
    append_finish(out, reason_word(index, reason), stop);
    end_choice(out, usage);
    return out;
  }

  std::string_view reason_word(int32_t index, FinishReason reason) const override {
    const Choice& choice = choices_[static_cast<size_t>(index)];
    const bool calls = choice.parser && choice.parser->complete() && reason == FinishReason::kStop;
    return calls ? "tool_calls" : finish_word(reason);
  }

  std::string end(const RequestUsage& usage, std::string_view timings) override {
    std::string out;
    if (stream_.include_usage || !timings.empty()) {
      out = prefix_ + "],\"usage\":" + usage_json(usage);
      if (!timings.empty()) fmt::format_to(std::back_inserter(out), ",\"timings\":{}", timings);
      out += "}\n\n";
    }
    return out + sse_event("[DONE]");
  }

  std::string error(const Error& error) override { return error_and_done(error); }

  std::string whole(const RequestUsage& usage, std::string_view timings) override {
    std::string out;
    append_head(out, head_, "chat.completion");
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      fmt::format_to(std::back_inserter(out),
                     "{}{{\"index\":{},\"message\":{{\"role\":\"assistant\",\"content\":",
                     i == 0 ? "" : ",", i);
      if (choice.text.empty() && !choice.calls.empty())
        out += "null";
      else
        append_json_string(out, choice.text);
      out += ",\"refusal\":null,\"annotations\":[]";
      const auto index = static_cast<int32_t>(i);
      append_calls(out, index);
      out += '}';
      append_logprobs_field(out, with_logprobs_, choice.logprobs);
      append_finish(out, reason_word(index, choice.reason), choice.stop);
      out += '}';
    }
    out += "],\"usage\":" + usage_json(usage);
    if (!timings.empty()) fmt::format_to(std::back_inserter(out), ",\"timings\":{}", timings);
    return out + '}';
  }

 private:
  using Piece = ToolCallParser::Piece;
  struct Call {
    std::string name;
    std::string arguments;
  };
  struct Choice {
    std::optional<ToolCallParser> parser;  // where calls are looked for
    std::vector<Call> calls;               // of an answer that is sent whole
    std::string text;
    std::string logprobs;  // entries of logprobs.content
    FinishReason reason = FinishReason::kStop;
    std::string stop;  // the stop string that ended it, or ""
    bool role_sent = false;
    size_t n_calls_begun = 0;  // of a stream
  };

  static void keep(Choice& choice, std::vector<Piece>& pieces) {
    for (Piece& piece : pieces) {
      if (piece.kind == Piece::Kind::kText)
        choice.text += piece.text;
      else if (piece.kind == Piece::Kind::kCall)
        choice.calls.push_back({std::move(piece.text), ""});
      else if (piece.kind == Piece::Kind::kArguments)
        choice.calls.back().arguments += piece.text;
    }
  }

  void append_calls(std::string& out, int32_t index) const {
    const std::vector<Call>& calls = choices_[static_cast<size_t>(index)].calls;
    if (calls.empty()) return;
    out += ",\"tool_calls\":[";
    for (size_t i = 0; i < calls.size(); ++i) {
      fmt::format_to(std::back_inserter(out),
                     R"({}{{"id":"{}","type":"function","function":{{"name":)", i == 0 ? "" : ",",
                     tool_call_id(head_, index, i));
      append_json_string(out, calls[i].name);
      out += ",\"arguments\":";
      append_json_string(out, calls[i].arguments);
      out += "}}";
    }
    out += ']';
  }

  // One chunk a piece; the log-probabilities go with the first.
  void append_chunks(std::string& out, int32_t index, const std::vector<Piece>& pieces,
                     std::string_view entries, const RequestUsage* usage) {
    Choice& choice = choices_[static_cast<size_t>(index)];
    const auto chunk = [&](const auto& append_delta) {
      begin_choice(out, index);
      append_delta();
      out += '}';
      const std::string_view its_entries = std::exchange(entries, {});
      append_logprobs_field(out, !its_entries.empty(), its_entries);
      out += ",\"finish_reason\":null";
      end_choice(out, usage);
    };
    for (const Piece& piece : pieces) {
      if (piece.kind == Piece::Kind::kEnd) continue;
      chunk([&] {
        if (piece.kind == Piece::Kind::kText) {
          out += "\"content\":";
          append_json_string(out, piece.text);
        } else {
          append_call_delta(out, index, choice, piece);
        }
      });
    }
    if (entries.empty()) return;
    // Tokens without text of their own.
    chunk([&] {
      if (!choice.parser) out += "\"content\":\"\"";
    });
  }

  void append_call_delta(std::string& out, int32_t index, Choice& choice,
                         const Piece& piece) const {
    if (piece.kind == Piece::Kind::kCall) {
      const size_t call = choice.n_calls_begun++;
      fmt::format_to(
          std::back_inserter(out),
          R"("tool_calls":[{{"index":{},"id":"{}","type":"function","function":{{"name":)", call,
          tool_call_id(head_, index, call));
      append_json_string(out, piece.text);
      out += ",\"arguments\":\"\"}}]";
      return;
    }
    fmt::format_to(std::back_inserter(out),
                   R"("tool_calls":[{{"index":{},"function":{{"arguments":)",
                   choice.n_calls_begun - 1);
    append_json_string(out, piece.text);
    out += "}}]";
  }

  // The first chunk of a choice. Where there may be calls, there may be no content.
  std::string role(int32_t index, const RequestUsage* usage) {
    Choice& choice = choices_[static_cast<size_t>(index)];
    if (std::exchange(choice.role_sent, true)) return {};
    std::string out;
    begin_choice(out, index);
    out += "\"role\":\"assistant\",\"content\":";
    out += choice.parser ? "null" : "\"\"";
    out += ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":null";
    end_choice(out, usage);
    return out;
  }

  void begin_choice(std::string& out, int32_t index) const {
    fmt::format_to(std::back_inserter(out), "{}{{\"index\":{},\"delta\":{{", prefix_, index);
  }

  void end_choice(std::string& out, const RequestUsage* usage) const {
    out += "}]";
    if (usage != nullptr)
      out += ",\"usage\":" + usage_json(*usage);
    else if (stream_.include_usage)
      out += ",\"usage\":null";
    out += "}\n\n";
  }

  const AnswerHead head_;
  const Tokenizer& tokenizer_;
  const bool with_logprobs_;
  const StreamFields stream_;
  std::vector<Choice> choices_;
  std::string prefix_;  // of a chunk, up to the choices
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_answer(const AnswerHead& head, const Tokenizer& tokenizer,
                                               int32_t n_choices, bool with_logprobs,
                                               const StreamFields& stream, const CallRules& calls) {
  return std::make_unique<ChatAnswer>(head, tokenizer, n_choices, with_logprobs, stream, calls);
}

}  // namespace hs
