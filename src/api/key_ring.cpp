#include "api/key_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hs {
namespace {

constexpr double kMinuteUs = 60e6;

bool starts_with_bearer(std::string_view text) {
  constexpr std::string_view kBearer = "bearer ";
  return text.size() > kBearer.size() &&
         std::ranges::equal(text.substr(0, kBearer.size()), kBearer,
                            [](char a, char b) { return (a | 0x20) == (b | 0x20); });
}

}  // namespace

void KeyRing::set_keys(const std::vector<ApiKey>& keys) {
  on_ = on_ || !keys.empty();
  std::map<KeyHash, Entry> entries;
  for (const ApiKey& key : keys) {
    if (!key.is_good()) continue;
    const auto old = entries_.find(key.hash);
    Entry entry = old == entries_.end() ? Entry{} : std::move(old->second);
    if (old == entries_.end()) entry.tokens = static_cast<double>(key.per_minute_max);
    entry.key = key;
    entries.emplace(key.hash, std::move(entry));
  }
  entries_ = std::move(entries);
}

const ApiKey* KeyRing::find(std::string_view authorization) const {
  if (!starts_with_bearer(authorization)) return nullptr;
  std::string_view key = authorization.substr(authorization.find(' ') + 1);
  while (key.starts_with(' ')) key.remove_prefix(1);
  const auto entry = entries_.find(hash_key(key));
  return entry == entries_.end() ? nullptr : &entry->second.key;
}

double KeyRing::tokens_at(const Entry& entry, int64_t now_us) {
  const auto limit = static_cast<double>(entry.key.per_minute_max);
  const double filled = static_cast<double>(now_us - entry.filled_us) * limit / kMinuteUs;
  return std::min(limit, entry.tokens + std::max(filled, 0.0));
}

std::optional<KeyRing::Refusal> KeyRing::check(const ApiKey& key, int64_t now_us) const {
  const auto found = entries_.find(key.hash);
  if (found == entries_.end()) return {};
  const Entry& entry = found->second;
  if (key.concurrency_max > 0 && *entry.under_way >= key.concurrency_max)
    return Refusal{
        {ErrorKind::kResourceExhausted,
         fmt::format("This key may have {} requests under way at a time.", key.concurrency_max),
         "concurrency_limit_exceeded", ""},
        1};
  if (key.per_minute_max <= 0) return {};
  const double tokens = tokens_at(entry, now_us);
  if (tokens >= 1) return {};
  const double wait_s = (1 - tokens) * 60 / static_cast<double>(key.per_minute_max);
  return Refusal{{ErrorKind::kResourceExhausted,
                  fmt::format("This key may send {} requests a minute.", key.per_minute_max),
                  "rate_limit_exceeded", ""},
                 std::max<int64_t>(1, static_cast<int64_t>(std::ceil(wait_s)))};
}

KeyTicket KeyRing::begin(const ApiKey& key, int64_t now_us) {
  const auto found = entries_.find(key.hash);
  if (found == entries_.end()) return {};
  Entry& entry = found->second;
  entry.tokens = tokens_at(entry, now_us) - (key.per_minute_max > 0 ? 1 : 0);
  entry.filled_us = now_us;
  return {entry.under_way, entry.key};
}

}  // namespace hs
