// The post-processor of a tokenizer.json, as far as it changes ids: what is put before and behind a
// text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/status.h"

namespace hs {

struct PostProcessor {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
};

// Of the "post_processor" object: TemplateProcessing (its "single" form), ByteLevel, Sequence,
// BertProcessing, RobertaProcessing. Another type is kUnsupported and named.
Result<PostProcessor> parse_post_processor(const nlohmann::json& json);

}  // namespace hs
