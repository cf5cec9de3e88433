#include "api/chat_answer.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "api/json_writer.h"
#include "http/sse.h"

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

void append_finish(std::string& out, FinishReason reason, std::string_view stop) {
  fmt::format_to(std::back_inserter(out), ",\"finish_reason\":\"{}\"", finish_word(reason));
  if (!stop.empty()) {
    out += ",\"stop_reason\":";
    append_json_string(out, stop);
  }
}

class ChatAnswer final : public AnswerFormat {
 public:
  ChatAnswer(const AnswerHead& head, const Tokenizer& tokenizer, int32_t n_choices,
             bool with_logprobs, const StreamFields& stream)
      : head_(head),
        tokenizer_(tokenizer),
        with_logprobs_(with_logprobs),
        stream_(stream),
        choices_(static_cast<size_t>(n_choices)) {
    if (!stream_.stream) return;
    prefix_ = "data: ";
    append_head(prefix_, head_, "chat.completion.chunk");
  }

  std::string text(int32_t index, std::string_view text, std::span<const TokenLogprob> logprobs,
                   const RequestUsage* usage) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    if (!stream_.stream) {
      choice.text += text;
      append_logprobs(choice.logprobs, tokenizer_, logprobs);
      return {};
    }
    std::string out = role(index, usage);
    std::string entries;
    append_logprobs(entries, tokenizer_, logprobs);
    if (text.empty() && entries.empty()) return out;
    begin_choice(out, index);
    out += "\"content\":";
    append_json_string(out, text);
    out += '}';
    append_logprobs_field(out, !entries.empty(), entries);
    out += ",\"finish_reason\":null";
    end_choice(out, usage);
    return out;
  }

  std::string finish(int32_t index, FinishReason reason, std::string_view stop,
                     const RequestUsage* usage) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.reason = reason;
    choice.stop = stop;
    if (!stream_.stream) return {};
    std::string out = role(index, usage);
    begin_choice(out, index);
    out += "},\"logprobs\":null";
    append_finish(out, reason, stop);
    end_choice(out, usage);
    return out;
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
      append_json_string(out, choice.text);
      out += ",\"refusal\":null,\"annotations\":[]}";
      append_logprobs_field(out, with_logprobs_, choice.logprobs);
      append_finish(out, choice.reason, choice.stop);
      out += '}';
    }
    out += "],\"usage\":" + usage_json(usage);
    if (!timings.empty()) fmt::format_to(std::back_inserter(out), ",\"timings\":{}", timings);
    return out + '}';
  }

 private:
  struct Choice {
    std::string text;
    std::string logprobs;  // entries of logprobs.content
    FinishReason reason = FinishReason::kStop;
    std::string stop;  // the stop string that ended it, or ""
    bool role_sent = false;
  };

  // The first chunk of a choice.
  std::string role(int32_t index, const RequestUsage* usage) {
    if (std::exchange(choices_[static_cast<size_t>(index)].role_sent, true)) return {};
    std::string out;
    begin_choice(out, index);
    out +=
        "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,\"finish_"
        "reason\":null";
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
                                               const StreamFields& stream) {
  return std::make_unique<ChatAnswer>(head, tokenizer, n_choices, with_logprobs, stream);
}

}  // namespace hs
