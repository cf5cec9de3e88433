// How an answer looks: one face for chat, completions and responses, whole or as a stream of
// events. The exchange says what became certain; a format says what the client is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "text/tokenizer.h"
#include "text/tool_format.h"

namespace hs {

// How an answer's calls of functions are told from its text.
struct CallRules {
  const ToolFormat* format = nullptr;  // null: all is text
  bool only_first = false;             // a call can only begin the answer
};

// What every part of an answer repeats.
struct AnswerHead {
  std::string id;  // 24 hexadecimal digits; each format puts its own word before them
  int64_t created_s = 0;
  std::string model;
  std::string fingerprint;
};

// Of one request; loop thread only. Choices are numbered over all prompts of a request. In a stream
// the calls return framed events, or "" for none; where the answer is sent whole they keep what
// they are told, return "", and whole() is the body.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // A stream begins.
  virtual std::string begin() { return {}; }
  virtual void prompt_logprobs(int32_t /*prompt*/, std::span<const TokenLogprob> /*logprobs*/) {}
  // `usage`: running counts, or null.
  virtual std::string text(int32_t choice, std::string_view text,
                           std::span<const TokenLogprob> logprobs, const RequestUsage* usage) = 0;
  virtual std::string finish(int32_t choice, FinishReason reason, std::string_view stop,
                             const RequestUsage* usage) = 0;
  // OpenAI's word for how a finished choice ended.
  virtual std::string_view reason_word(int32_t choice, FinishReason reason) const;
  // The last events of a stream. `timings`: JSON, or "" for none.
  virtual std::string end(const RequestUsage& usage, std::string_view timings) = 0;
  // The last events of a stream that failed.
  virtual std::string error(const Error& error) = 0;
  virtual std::string whole(const RequestUsage& usage, std::string_view timings) = 0;
};

// OpenAI's word, of a choice without calls.
std::string_view finish_word(FinishReason reason);

// "call_...": another one for each call, whatever request it is of.
std::string tool_call_id(const AnswerHead& head, int32_t choice, size_t call);

// "token":..., "logprob":..., "bytes":[...]
void append_token(std::string& out, const Tokenizer& tokenizer, int32_t id, float logprob);
// Appends entries of logprobs.content, separated by commas (also from what `out` holds already).
void append_logprobs(std::string& out, const Tokenizer& tokenizer,
                     std::span<const TokenLogprob> tokens);

// {"prompt_tokens":...}
std::string usage_json(const RequestUsage& usage);
// {"queue_ms":...}: the stages that happened; what moved between devices, and transfer_share, its
// part of the whole time; whether a consumer device answered.
std::string timings_json(const RequestTimings& timings, int64_t image_fetch_us,
                         int64_t image_decode_us);

// An error event, then "[DONE]", as chat and completions end.
std::string error_and_done(const Error& error);

}  // namespace hs
