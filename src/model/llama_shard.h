// How several devices share the layers of a Llama (Shoeybi et al., 2019, Megatron-LM): each rank
// has some of the attention heads and some of the MLP's inner columns. The matrices before them (q,
// k, v, gate, up) are cut by output rows, those behind (o, down) by input columns, so that each
// rank's product is a part of a sum. The embedding table and the output matrix are whole, on rank
// 0.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "model/llama_config.h"
#include "model/weights.h"

namespace hs {

struct LlamaShard {
  int32_t rank = 0;
  int32_t n_ranks = 1;
  Slice heads;     // of q and of o's inputs
  Slice kv_heads;  // the same ones on several ranks where those are more than the heads
  Slice ff;        // inner columns of the MLP; sizes differ by one at most
};

// Whether so many devices can share the model. kInvalidArgument says how many can.
Status check_split(const LlamaConfig& config, int32_t n_ranks);
// REQUIRES: check_split(config, n_ranks).
LlamaShard shard_of(const LlamaConfig& config, int32_t rank, int32_t n_ranks);
// The config of a model that is no more than the shard.
LlamaConfig config_of(const LlamaConfig& config, const LlamaShard& shard);

}  // namespace hs
