#include "model/llama_shard.h"

#include <fmt/format.h>

#include <string>

#include "base/check.h"

namespace hs {

namespace {

// A rank's query heads must be served by whole KV heads, its own or one that it has with others.
bool can_split(const LlamaConfig& config, int32_t n_ranks) {
  return config.n_heads % n_ranks == 0 && config.ff_dim >= n_ranks &&
         (config.n_kv_heads % n_ranks == 0 || n_ranks % config.n_kv_heads == 0);
}

}  // namespace

Status check_split(const LlamaConfig& config, int32_t n_ranks) {
  if (can_split(config, n_ranks)) return {};
  std::string possible;
  for (int32_t n = 2; n <= config.n_heads; ++n) {
    if (can_split(config, n)) possible += fmt::format("{}{}", possible.empty() ? "" : ", ", n);
  }
  return fail(
      ErrorKind::kInvalidArgument,
      fmt::format("tensor-parallel {}: {} devices cannot share {} attention heads with {} KV "
                  "heads evenly; {}",
                  n_ranks, n_ranks, config.n_heads, config.n_kv_heads,
                  possible.empty() ? "this model has no other split either"
                                   : fmt::format("this model can be split by {}", possible)));
}

LlamaShard shard_of(const LlamaConfig& config, int32_t rank, int32_t n_ranks) {
  HS_CHECK(can_split(config, n_ranks));
  LlamaShard shard{.rank = rank, .n_ranks = n_ranks, .heads = {}, .kv_heads = {}, .ff = {}};
  const int64_t n_heads = config.n_heads / n_ranks;
  shard.heads = {rank * n_heads, n_heads};
  if (config.n_kv_heads % n_ranks == 0) {
    const int64_t n_kv_heads = config.n_kv_heads / n_ranks;
    shard.kv_heads = {rank * n_kv_heads, n_kv_heads};
  } else {
    shard.kv_heads = {rank / (n_ranks / config.n_kv_heads), 1};
  }
  const int64_t first = int64_t{config.ff_dim} * rank / n_ranks;
  shard.ff = {first, int64_t{config.ff_dim} * (rank + 1) / n_ranks - first};
  return shard;
}

LlamaConfig config_of(const LlamaConfig& config, const LlamaShard& shard) {
  LlamaConfig part = config;
  part.n_heads = static_cast<int32_t>(shard.heads.size);
  part.n_kv_heads = static_cast<int32_t>(shard.kv_heads.size);
  part.ff_dim = static_cast<int32_t>(shard.ff.size);
  return part;
}

}  // namespace hs
