#include "api/completion_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "api/json_writer.h"
#include "http/sse.h"
#include "text/detokenizer.h"

namespace hs {
namespace {

int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// A token as a name: its text, or where that is no whole character its bytes, as OpenAI writes
// them.
std::string token_name(const Tokenizer& tokenizer, int32_t id) {
  const std::string bytes = tokenizer.token_bytes(id);
  if (to_valid_utf8(bytes) == bytes) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes)
    fmt::format_to(std::back_inserter(name), "\\x{:02x}",
                   static_cast<unsigned>(static_cast<unsigned char>(c)));
  return name;
}

// The four lists beside each other, as JSON.
class LogprobLists {
 public:
  void add(const Tokenizer& tokenizer, const TokenLogprob& token, int64_t offset) {
    begin(tokenizer, token.id, offset);
    append_json_number(logprobs_, token.logprob);
    top_ += '{';
    std::set<std::string> named;  // JSON objects have a name once
    const auto entry = [&](int32_t id, float logprob) {
      std::string name = token_name(tokenizer, id);
      if (named.contains(name)) return;
      if (!named.empty()) top_ += ',';
      append_json_string(top_, name);
      top_ += ':';
      append_json_number(top_, logprob);
      named.insert(std::move(name));
    };
    for (const auto& [id, logprob] : token.top) entry(id, logprob);
    entry(token.id, token.logprob);
    top_ += '}';
  }
  // The first token of a prompt, which follows nothing.
  void add_first(const Tokenizer& tokenizer, int32_t id) {
    begin(tokenizer, id, 0);
    logprobs_ += "null";
    top_ += "null";
  }
  std::string take() {
    std::string out = fmt::format(
        "{{\"tokens\":[{}],\"token_logprobs\":[{}],\"top_logprobs\":[{}],\"text_offset\":[{}]}}",
        tokens_, logprobs_, top_, offsets_);
    *this = LogprobLists();
    return out;
  }
  bool empty() const { return tokens_.empty(); }

 private:
  void begin(const Tokenizer& tokenizer, int32_t id, int64_t offset) {
    for (std::string* list : {&tokens_, &logprobs_, &top_, &offsets_})
      if (!list->empty()) *list += ',';
    append_json_string(tokens_, token_name(tokenizer, id));
    offsets_ += std::to_string(offset);
  }

  std::string tokens_, logprobs_, top_, offsets_;
};

class CompletionAnswer final : public AnswerFormat {
 public:
  CompletionAnswer(const AnswerHead& head, const Tokenizer& tokenizer, CompletionShape shape)
      : tokenizer_(tokenizer),
        shape_(std::move(shape)),
        choices_(static_cast<size_t>(shape_.n_prompts) * static_cast<size_t>(shape_.n_choices)),
        prompt_logprobs_(static_cast<size_t>(shape_.n_prompts)) {
    prefix_ = "{\"id\":";
    append_json_string(prefix_, "cmpl-" + head.id);
    prefix_ +=
        fmt::format(",\"object\":\"text_completion\",\"created\":{},\"model\":", head.created_s);
    append_json_string(prefix_, head.model);
    prefix_ += ",\"system_fingerprint\":";
    append_json_string(prefix_, head.fingerprint);
    prefix_ += ",\"choices\":[";
  }

  void prompt_logprobs(int32_t prompt, std::span<const TokenLogprob> logprobs) override {
    prompt_logprobs_[static_cast<size_t>(prompt)].assign(logprobs.begin(), logprobs.end());
  }

  std::string text(int32_t index, std::string_view text, std::span<const TokenLogprob> logprobs,
                   const RequestUsage* usage) override {
    Choice& choice = begun(index);
    choice.text += text;
    for (const TokenLogprob& token : logprobs) add_logprob(choice, token);
    if (!shape_.stream.stream || (choice.text.empty() && choice.lists.empty())) return {};
    return chunk(index, choice, "null", "", usage);
  }

  std::string finish(int32_t index, FinishReason reason, std::string_view stop,
                     const RequestUsage* usage) override {
    Choice& choice = begun(index);
    choice.reason = reason;
    choice.stop = stop;
    if (!shape_.stream.stream) return {};
    return chunk(index, choice, fmt::format("\"{}\"", finish_word(reason)), stop, usage);
  }

  std::string end(const RequestUsage& usage, std::string_view timings) override {
    std::string out;
    if (shape_.stream.include_usage || !timings.empty()) {
      std::string last = prefix_;
      append_tail(last, usage, timings);
      out = sse_event(last);
    }
    return out + sse_event("[DONE]");
  }

  std::string error(const Error& error) override { return error_and_done(error); }

  std::string whole(const RequestUsage& usage, std::string_view timings) override {
    std::string out = prefix_;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      Choice& choice = choices_[i];
      append_choice(out, static_cast<int32_t>(i), choice,
                    fmt::format("\"{}\"", finish_word(choice.reason)), choice.stop);
    }
    append_tail(out, usage, timings);
    return out;
  }

 private:
  struct Choice {
    std::string text;                        // not sent yet
    LogprobLists lists;                      // likewise
    std::optional<Detokenizer> detokenizer;  // for the offsets of tokens; with log-probabilities
    int64_t n_characters = 0;
    bool begun = false;
    FinishReason reason = FinishReason::kStop;
    std::string stop;
  };

  // The choice, with the echo of its prompt before anything else.
  Choice& begun(int32_t index) {
    Choice& choice = choices_[static_cast<size_t>(index)];
    if (std::exchange(choice.begun, true)) return choice;
    const bool with_logprobs = shape_.n_logprobs >= 0;
    const bool echoes = !shape_.echo.empty();
    if (with_logprobs)
      choice.detokenizer.emplace(
          tokenizer_, shape_.skip_special_tokens,
          echoes ? Detokenizer::Start::kNewText : Detokenizer::Start::kContinuation);
    if (!echoes) return choice;
    const auto prompt = static_cast<size_t>(index / shape_.n_choices);
    choice.text = shape_.echo[prompt].text;
    if (!with_logprobs) return choice;
    const std::vector<int32_t>& ids = shape_.echo[prompt].token_ids;
    choice.lists.add_first(tokenizer_, ids.front());
    choice.n_characters += count_characters(choice.detokenizer->push(ids.front()));
    for (const TokenLogprob& token : prompt_logprobs_[prompt]) add_logprob(choice, token);
    return choice;
  }

  void add_logprob(Choice& choice, const TokenLogprob& token) {
    choice.lists.add(tokenizer_, token, choice.n_characters);
    choice.n_characters += count_characters(choice.detokenizer->push(token.id));
  }

  void append_choice(std::string& out, int32_t index, Choice& choice, std::string_view reason,
                     std::string_view stop) const {
    fmt::format_to(std::back_inserter(out), "{{\"index\":{},\"text\":", index);
    append_json_string(out, choice.text);
    choice.text.clear();
    out += ",\"logprobs\":";
    const bool whole = shape_.n_logprobs >= 0 && !shape_.stream.stream;
    out += whole || !choice.lists.empty() ? choice.lists.take() : "null";
    fmt::format_to(std::back_inserter(out), ",\"finish_reason\":{}", reason);
    if (!stop.empty()) {
      out += ",\"stop_reason\":";
      append_json_string(out, stop);
    }
    out += '}';
  }

  std::string chunk(int32_t index, Choice& choice, std::string_view reason, std::string_view stop,
                    const RequestUsage* usage) const {
    std::string out = prefix_;
    append_choice(out, index, choice, reason, stop);
    out += ']';
    if (usage != nullptr)
      out += ",\"usage\":" + usage_json(*usage);
    else if (shape_.stream.include_usage)
      out += ",\"usage\":null";
    return sse_event(out + '}');
  }

  static void append_tail(std::string& out, const RequestUsage& usage, std::string_view timings) {
    out += "],\"usage\":" + usage_json(usage);
    if (!timings.empty()) fmt::format_to(std::back_inserter(out), ",\"timings\":{}", timings);
    out += '}';
  }

  const Tokenizer& tokenizer_;
  const CompletionShape shape_;
  std::vector<Choice> choices_;
  std::vector<std::vector<TokenLogprob>>
      prompt_logprobs_;  // of each prompt, but for its first token
  std::string prefix_;   // up to the choices
};

}  // namespace

std::unique_ptr<AnswerFormat> make_completion_answer(const AnswerHead& head,
                                                     const Tokenizer& tokenizer,
                                                     CompletionShape shape) {
  return std::make_unique<CompletionAnswer>(head, tokenizer, std::move(shape));
}

}  // namespace hs
