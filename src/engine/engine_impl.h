// The engine's loop-thread side: requests and lanes on one hand, the scheduler's decisions on the
// other. engine.cpp: requests; engine_completions.cpp: what lanes hand back; engine_dispatch.cpp:
// what they get; engine_create.cpp: start.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/active_request.h"
#include "engine/engine.h"
#include "engine/step_builder.h"
#include "engine/work_orders.h"

namespace hs {

// A device's thread, and what is known of it.
struct EngineLane {
  Device* device = nullptr;
  std::unique_ptr<Lane> lane;
  Timeline timeline;
  LaneStats stats;
};

struct EngineTower {
  size_t lane = 0;
  std::unique_ptr<TowerOutput> output;
};

struct EngineUnit {
  size_t lane = 0;                 // of rank 0: transfers go there
  std::vector<size_t> rank_lanes;  // of all ranks
  LanguageModel* model = nullptr;
  std::unique_ptr<EmbeddingIntake> intake = nullptr;  // null without pictures
  UnitRole role = UnitRole::kServe;
};

// A unit's step, and the work orders of its ranks that are here: all, when no step is out.
struct EngineStep {
  UnitStep step;
  std::vector<std::unique_ptr<StepWork>> works;
};

// From one device to another; kept by (from lane, to lane).
struct EngineLink {
  size_t from = 0;
  size_t to = 0;
  std::unique_ptr<PeerLink> link;
};

// Everything that is allocated before the engine runs.
struct EngineParts {
  EngineConfig config;  // resolved
  TierConfig tiers;
  std::vector<Device*> devices;  // one lane each
  std::vector<EngineTower> towers;
  std::vector<EngineUnit> units;
  std::vector<EngineLink> links;
  bool verify_transfers = true;
};

Error engine_error(std::string message);

class EngineImpl final : public Engine {
 public:
  EngineImpl(const Model& model, EngineParts parts, const Clock& clock, std::function<void()> wake);
  ~EngineImpl() override;

  Result<RequestId> submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) override;
  void cancel(RequestId id) override;
  void poll() override;
  EngineStats stats() const override;
  std::vector<LaneTimeline> timeline() const override;
  std::vector<std::string> links() const override;
  bool idle() const override;
  const EngineConfig& config() const override { return parts_.config; }

 private:
  // engine.cpp
  Status check_request(const GenerateRequest& request) const;
  void finish_empty_requests();
  void apply_cancels();
  void fail_requests(const Error& error);
  void end_request(RequestId id, const Error* error);
  ActiveRequest* find(RequestId id);

  // engine_completions.cpp
  void handle(std::unique_ptr<WorkOrder> order);
  void handle_encode(EncodeWork& work);
  void handle_transfer(TransferWork& work);
  void fail_not_finite(std::span<const ImageOutcome> outcomes);
  void handle_kv(KvWork& work);
  void handle_rank(std::unique_ptr<StepWork> work);
  void handle_step(int32_t unit_index);
  size_t take_scored(const StepOrder::Item& item, std::span<const SampledToken> rows);
  void handle_failed_step(const StepOrder& order, const StepWork& work);
  void handle_token(RequestId id, int32_t choice, const SampledToken& token);
  void lose_device(size_t lane, const Status& status);
  void check_lost(size_t lane, const Status& status);
  void record(size_t lane, const WorkOrder& work, TimelineEntry entry);

  // engine_dispatch.cpp
  void dispatch();
  void dispatch_encodes();
  void dispatch_transfers();
  void dispatch_kv();
  void dispatch_steps();
  PeerLink& link(size_t from, size_t to);

  const ModelSpec& spec_;
  const Tokenizer& tokenizer_;
  EngineParts parts_;
  const Clock& clock_;
  std::function<void()> wake_;
  TierScheduler tiers_;
  std::vector<StepBuilder> step_builders_;  // one a unit

  RequestId next_id_ = 1;
  std::unordered_map<RequestId, std::unique_ptr<ActiveRequest>> active_;
  std::vector<RequestId> cancels_;  // noted, not yet applied
  std::vector<RequestId> empty_;    // requests that want no token
  EngineStats counters_;            // those that only the engine knows

  struct SampledItem {
    RequestId request = 0;
    int32_t choice = 0;
    size_t row = 0;  // of the step's sampled tokens
  };
  // Work areas, kept to avoid allocation.
  std::vector<std::unique_ptr<WorkOrder>> completed_;
  std::vector<SampledItem> sampled_items_;
  std::vector<int32_t> sampled_tokens_;
  std::vector<RequestId> ids_;
  EncodeOrder encode_order_;
  TransferOrder transfer_order_;
  KvOrder kv_order_;
  std::vector<std::unique_ptr<EngineStep>> steps_;  // one a unit

  // Last, so that the lanes stop before anything they use goes.
  CompletionQueue completions_;
  std::vector<EngineLane> lanes_;
};

}  // namespace hs
