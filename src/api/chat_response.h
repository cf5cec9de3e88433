// Answers of POST /v1/chat/completions as JSON: whole, and as the events of a stream. Written by
// hand, because one event a token is the API's hot path.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "text/tokenizer.h"

namespace hs {

// What every part of an answer repeats.
struct AnswerHead {
  std::string id;  // "chatcmpl-..."
  int64_t created_s = 0;
  std::string model;
  std::string fingerprint;
};

// OpenAI's word.
std::string_view finish_word(FinishReason reason);

// Appends entries of logprobs.content, separated by commas (also from what `out` holds already).
void append_logprobs(std::string& out, const Tokenizer& tokenizer,
                     std::span<const TokenLogprob> tokens);

// {"prompt_tokens":...}
std::string usage_json(const RequestUsage& usage);
// {"queue_ms":...}: the stages that happened; what moved between devices, and transfer_share, its
// part of the whole time; whether a consumer device answered.
std::string timings_json(const RequestTimings& timings, int64_t image_decode_us);

struct AnswerChoice {
  std::string text;
  std::string logprobs;  // entries of logprobs.content
  FinishReason reason = FinishReason::kStop;
  std::string stop;  // the stop string that ended it, or ""
};

// `timings`: JSON, or "" for none.
std::string chat_completion_json(const AnswerHead& head, std::span<const AnswerChoice> choices,
                                 bool with_logprobs, const RequestUsage& usage,
                                 std::string_view timings);

// Events of a stream, framed ("data: ...\n\n").
class ChunkWriter {
 public:
  // include_usage: chunks say "usage":null until the last.
  ChunkWriter(const AnswerHead& head, bool include_usage);

  // `usage`: running counts, or null.
  std::string role(int32_t choice, const RequestUsage* usage) const;
  std::string text(int32_t choice, std::string_view text, std::string_view logprobs,
                   const RequestUsage* usage) const;
  std::string finish(int32_t choice, FinishReason reason, std::string_view stop,
                     const RequestUsage* usage) const;
  std::string usage(const RequestUsage& usage, std::string_view timings) const;

 private:
  std::string begin_choice(int32_t choice) const;
  void end_choice(std::string& out, const RequestUsage* usage) const;

  std::string prefix_;  // up to the choices
  bool include_usage_;
};

}  // namespace hs
