#include "api/answer_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "api/errors.h"
#include "api/json_writer.h"
#include "http/sse.h"

namespace hs {
namespace {

// What moved between devices, where anything did, and who finished.
void append_transfers(std::string& out, const RequestTimings& timings) {
  const auto comma = [&out] {
    if (out.size() > 1) out += ',';
  };
  const int64_t moving_us =
      std::max<int64_t>(timings.transfer_us, 0) + std::max<int64_t>(timings.kv_transfer_us, 0);
  if (timings.transfer_us >= 0 || timings.kv_transfer_us >= 0) {
    comma();
    fmt::format_to(std::back_inserter(out), "\"transfer_bytes\":{},\"kv_transfer_bytes\":{}",
                   timings.transfer_bytes, timings.kv_transfer_bytes);
    if (!timings.transfer_path.empty()) {
      out += ",\"transfer_path\":";
      append_json_string(out, timings.transfer_path);
    }
    if (timings.total_us > 0)
      fmt::format_to(std::back_inserter(out), ",\"transfer_share\":{:.6f}",
                     static_cast<double>(moving_us) / static_cast<double>(timings.total_us));
  }
  comma();
  fmt::format_to(std::back_inserter(out), "\"stolen\":{}", timings.stolen);
}

}  // namespace

void append_token(std::string& out, const Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string bytes = tokenizer.token_bytes(id);
  out += "\"token\":";
  append_json_string(out, bytes);
  out += ",\"logprob\":";
  append_json_number(out, logprob);
  out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i)
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",",
                   static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
  out += ']';
}

std::string_view AnswerFormat::reason_word(int32_t /*choice*/, FinishReason reason) const {
  return finish_word(reason);
}

std::string tool_call_id(const AnswerHead& head, int32_t choice, size_t call) {
  // 64 random bits of the request, and its own numbers.
  return fmt::format("call_{}{:04x}{:04x}", head.id.substr(0, 16), choice, call);
}

std::string_view finish_word(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

void append_logprobs(std::string& out, const Tokenizer& tokenizer,
                     std::span<const TokenLogprob> tokens) {
  for (const TokenLogprob& token : tokens) {
    out += out.empty() ? "{" : ",{";
    append_token(out, tokenizer, token.id, token.logprob);
    out += ",\"top_logprobs\":[";
    for (size_t i = 0; i < token.top.size(); ++i) {
      out += i == 0 ? "{" : ",{";
      append_token(out, tokenizer, token.top[i].first, token.top[i].second);
      out += '}';
    }
    out += "]}";
  }
}

std::string usage_json(const RequestUsage& usage) {
  return fmt::format(
      "{{\"prompt_tokens\":{},\"completion_tokens\":{},\"total_tokens\":{},\"prompt_tokens_"
      "details\":"
      "{{\"cached_tokens\":{},\"image_tokens\":{},\"text_tokens\":{}}}}}",
      usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens,
      usage.cached_tokens, usage.image_tokens, usage.prompt_tokens - usage.image_tokens);
}

std::string timings_json(const RequestTimings& timings, int64_t image_fetch_us,
                         int64_t image_decode_us) {
  const std::pair<std::string_view, int64_t> stages[] = {
      {"image_fetch_ms", image_fetch_us},
      {"image_decode_ms", image_decode_us},
      {"queue_ms", timings.queue_us},
      {"encode_ms", timings.encode_us},
      {"transfer_ms", timings.transfer_us},
      {"prefill_ms", timings.prefill_us},
      {"first_token_ms", timings.first_token_us},
      {"decode_ms", timings.decode_us},
      {"kv_transfer_ms", timings.kv_transfer_us},
      {"total_ms", timings.total_us},
  };
  std::string out = "{";
  for (const auto& [name, us] : stages)
    if (us >= 0)
      fmt::format_to(std::back_inserter(out), "{}\"{}\":{:.3f}", out.size() == 1 ? "" : ",", name,
                     static_cast<double>(us) / 1000.0);
  append_transfers(out, timings);
  return out + '}';
}

std::string error_and_done(const Error& error) {
  return sse_event(error_json(error)) + sse_event("[DONE]");
}

}  // namespace hs
