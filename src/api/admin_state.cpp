#include "api/admin_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/json_writer.h"

namespace hs {
namespace {

// An object in the making.
class Object {
 public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  ~Object() { out_ += '}'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  void text(std::string_view name, std::string_view value) {
    key(name);
    append_json_string(out_, value);
  }
  void number(std::string_view name, int64_t value) {
    key(name);
    fmt::format_to(std::back_inserter(out_), "{}", value);
  }
  void flag(std::string_view name, bool value) {
    key(name);
    out_ += value ? "true" : "false";
  }
  // `append(item)` writes one item's JSON.
  void list(std::string_view name, const auto& items, const auto& append) {
    key(name);
    out_ += '[';
    bool first = true;
    for (const auto& item : items) {
      if (!std::exchange(first, false)) out_ += ',';
      append(item);
    }
    out_ += ']';
  }
  void key(std::string_view name) {
    if (!std::exchange(first_, false)) out_ += ',';
    append_json_string(out_, name);
    out_ += ':';
  }

 private:
  std::string& out_;
  bool first_ = true;
};

void append_device(std::string& out, const LaneStats& lane, const ServedModel& model) {
  const auto known = std::ranges::find(model.devices, lane.device, &ServedDevice::name);
  Object device(out);
  device.text("device", lane.device);
  if (known != model.devices.end()) {
    device.text("description", known->description);
    device.flag("consumer", known->is_consumer);
    device.flag("datacenter", known->is_datacenter);
    device.text("why", known->why);
  }
  device.flag("lost", lane.lost);
  device.key("busy_us");
  Object busy(out);
  busy.number("encode", lane.encode_us);
  busy.number("transfer", lane.transfer_us);
  busy.number("language", lane.step_us - lane.stolen_us);
  busy.number("stolen", lane.stolen_us);
}

void append_request(std::string& out, const RunningRequest& request) {
  Object object(out);
  object.text("id", request.id);
  object.text("model", request.model);
  object.text("client", request.client);
  object.text("phase", request.phase);
  object.number("age_us", request.age_us);
  object.number("n_images", request.n_images);
  object.number("prompt_tokens", request.prompt_tokens);
  object.number("image_tokens", request.image_tokens);
  object.number("cached_tokens", request.cached_tokens);
  object.number("completion_tokens", request.completion_tokens);
  object.flag("stream", request.stream);
  object.text("key_name", request.key_name);
}

void append_engine(std::string& out, Object& state, const EngineStats& engine,
                   const EngineConfig& limits) {
  state.number("running", engine.running);
  state.number("waiting", engine.waiting);
  state.number("queue_max", limits.max_queue);
  state.number("sequences_max", limits.max_num_seqs);
  state.number("kv_blocks_used", engine.kv_blocks_used);
  state.number("kv_blocks", engine.kv_blocks_total);
  state.key("totals");
  Object totals(out);
  totals.number("prompt_tokens", engine.prompt_tokens);
  totals.number("generation_tokens", engine.generation_tokens);
  totals.number("images_encoded", engine.images_encoded);
  totals.number("image_cache_hits", engine.image_cache_hits);
  totals.number("prefix_hits", engine.prefix_hits);
  totals.number("preemptions", engine.preemptions);
  totals.number("transfers", engine.transfers);
  totals.number("transfer_bytes", engine.transfer_bytes);
  totals.number("transfer_retries", engine.transfer_retries);
  totals.number("kv_transfers", engine.kv_transfers);
  totals.number("kv_transfer_bytes", engine.kv_transfer_bytes);
  totals.number("steals", engine.steals);
  totals.number("steal_returns", engine.steal_returns);
}

}  // namespace

std::string admin_state_json(const AdminState& state) {
  std::string out;
  {
    Object object(out);
    object.number("now_us", state.now_us);
    object.text("status", state.status);
    object.text("version", state.version);
    object.number("preparing", state.n_preparing);
    object.list("requests", state.requests,
                [&](const RunningRequest& request) { append_request(out, request); });
    if (state.model != nullptr) {
      object.text("model", state.model->names.front());
      object.text("partition", state.model->partition);
      object.list("devices", state.engine.lanes,
                  [&](const LaneStats& lane) { append_device(out, lane, *state.model); });
      object.list("links", state.links,
                  [&](const std::string& link) { append_json_string(out, link); });
      append_engine(out, object, state.engine, state.limits);
    }
  }
  return out;
}

std::string settings_json(const std::vector<SettingInfo>& settings) {
  std::string out;
  {
    Object object(out);
    object.list("settings", settings, [&](const SettingInfo& setting) {
      Object entry(out);
      entry.text("key", setting.key);
      entry.text("value", setting.value);
      entry.text("origin", setting.origin);
      entry.text("flag", setting.flag);
      entry.text("environment", setting.environment);
      entry.text("description", setting.description);
    });
  }
  return out;
}

}  // namespace hs
