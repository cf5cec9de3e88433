// What the administration page is told of the server right now, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/served_model.h"
#include "engine/engine.h"

namespace hs {

// A request that is not answered completely.
struct RunningRequest {
  std::string id;  // X-Request-Id
  std::string model;
  std::string client;
  std::string_view phase;  // preparing: no prompt yet; waiting: no token yet; answering
  int64_t age_us = 0;
  int64_t n_images = 0;
  int32_t prompt_tokens = 0;
  int32_t image_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t completion_tokens = 0;
  bool stream = false;
  std::string key_name;  // "" = none was needed
};

// Where a setting's value came from; `config show` says the same.
struct SettingInfo {
  std::string key;          // "engine.max_num_seqs"
  std::string value;        // as it was written; "" = not set
  std::string origin;       // "flag", "environment", a file's path, "default"
  std::string flag;         // "--max-num-seqs"
  std::string environment;  // "HETEROSERVE_MAX_NUM_SEQS"
  std::string description;
};

struct AdminState {
  int64_t now_us = 0;  // the clock that busy times and the timeline are on
  std::string_view status;
  std::string version;
  const ServedModel* model = nullptr;  // null while none is loaded; then no more follows
  EngineStats engine;
  EngineConfig limits;
  std::vector<std::string> links;
  int32_t n_preparing = 0;
  std::vector<RunningRequest> requests;  // oldest first
};

std::string admin_state_json(const AdminState& state);
std::string settings_json(const std::vector<SettingInfo>& settings);

}  // namespace hs
