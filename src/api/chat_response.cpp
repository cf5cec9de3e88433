#include "api/chat_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "api/json_writer.h"

namespace hs {
namespace {

void append_head(std::string& out, const AnswerHead& head, std::string_view object) {
  out += "{\"id\":";
  append_json_string(out, head.id);
  fmt::format_to(std::back_inserter(out), ",\"object\":\"{}\",\"created\":{},\"model\":", object,
                 head.created_s);
  append_json_string(out, head.model);
  out += ",\"system_fingerprint\":";
  append_json_string(out, head.fingerprint);
  out += ",\"choices\":[";
}

// "token":..., "logprob":..., "bytes":[...]
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

std::string timings_json(const RequestTimings& timings, int64_t image_decode_us) {
  const std::pair<std::string_view, int64_t> stages[] = {
      {"image_decode_ms", image_decode_us}, {"queue_ms", timings.queue_us},
      {"encode_ms", timings.encode_us},     {"transfer_ms", timings.transfer_us},
      {"prefill_ms", timings.prefill_us},   {"first_token_ms", timings.first_token_us},
      {"decode_ms", timings.decode_us},     {"kv_transfer_ms", timings.kv_transfer_us},
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

std::string chat_completion_json(const AnswerHead& head, std::span<const AnswerChoice> choices,
                                 bool with_logprobs, const RequestUsage& usage,
                                 std::string_view timings) {
  std::string out;
  append_head(out, head, "chat.completion");
  for (size_t i = 0; i < choices.size(); ++i) {
    const AnswerChoice& choice = choices[i];
    fmt::format_to(
        std::back_inserter(out),
        "{}{{\"index\":{},\"message\":{{\"role\":\"assistant\",\"content\":", i == 0 ? "" : ",", i);
    append_json_string(out, choice.text);
    out += ",\"refusal\":null,\"annotations\":[]}";
    append_logprobs_field(out, with_logprobs, choice.logprobs);
    append_finish(out, choice.reason, choice.stop);
    out += '}';
  }
  out += "],\"usage\":" + usage_json(usage);
  if (!timings.empty()) fmt::format_to(std::back_inserter(out), ",\"timings\":{}", timings);
  return out + '}';
}

ChunkWriter::ChunkWriter(const AnswerHead& head, bool include_usage)
    : include_usage_(include_usage) {
  prefix_ = "data: ";
  append_head(prefix_, head, "chat.completion.chunk");
}

std::string ChunkWriter::role(int32_t choice, const RequestUsage* usage) const {
  std::string out = begin_choice(choice);
  out +=
      "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,\"finish_"
      "reason\":null";
  end_choice(out, usage);
  return out;
}

std::string ChunkWriter::text(int32_t choice, std::string_view text, std::string_view logprobs,
                              const RequestUsage* usage) const {
  std::string out = begin_choice(choice);
  out += "\"content\":";
  append_json_string(out, text);
  out += '}';
  append_logprobs_field(out, !logprobs.empty(), logprobs);
  out += ",\"finish_reason\":null";
  end_choice(out, usage);
  return out;
}

std::string ChunkWriter::finish(int32_t choice, FinishReason reason, std::string_view stop,
                                const RequestUsage* usage) const {
  std::string out = begin_choice(choice);
  out += "},\"logprobs\":null";
  append_finish(out, reason, stop);
  end_choice(out, usage);
  return out;
}

std::string ChunkWriter::usage(const RequestUsage& usage, std::string_view timings) const {
  std::string out = prefix_ + "],\"usage\":" + usage_json(usage);
  if (!timings.empty()) fmt::format_to(std::back_inserter(out), ",\"timings\":{}", timings);
  return out + "}\n\n";
}

std::string ChunkWriter::begin_choice(int32_t choice) const {
  return fmt::format("{}{{\"index\":{},\"delta\":{{", prefix_, choice);
}

void ChunkWriter::end_choice(std::string& out, const RequestUsage* usage) const {
  out += "}]";
  if (usage != nullptr)
    out += ",\"usage\":" + usage_json(*usage);
  else if (include_usage_)
    out += ",\"usage\":null";
  out += "}\n\n";
}

}  // namespace hs
