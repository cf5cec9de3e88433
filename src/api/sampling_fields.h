// The fields that chat and text completions share: how to choose tokens, and how to stream.
#pragma once

#include "api/chat_request.h"
#include "api/object_reader.h"

namespace hs {

// temperature, top_p, top_k, min_p, the three penalties, seed, n, stop, stop_token_ids, ignore_eos,
// skip_special_tokens. Errors go to `body`.
void read_sampling(ObjectReader& body, const RequestLimits& limits, SamplingFields& sampling);

// stream and stream_options.
void read_stream(ObjectReader& body, StreamFields& stream);

// Fields that this server accepts only with a value that asks for nothing.
void refuse_unsupported(ObjectReader& body);

}  // namespace hs
