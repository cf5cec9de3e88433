// What the engine gives its lanes to do. A lane touches only what its order points to.
#pragma once

#include <memory>
#include <vector>

#include "device/peer_link.h"
#include "engine/embedding_intake.h"
#include "engine/lane.h"
#include "engine/tier_scheduler.h"
#include "engine/tower_output.h"
#include "model/model.h"

namespace hs {

// The tower's lane: encode pictures into the receive slots of a unit on the same device, or into a
// buffer of the tower.
class EncodeWork final : public WorkOrder {
 public:
  EncodeWork(TowerOutput& tower, EmbeddingIntake& intake) : tower_(tower), intake_(intake) {}
  Kind kind() const override { return Kind::kEncode; }
  Status execute() override {
    outcomes.assign(order.items.size(), ImageOutcome::kFailed);
    if (order.buffer >= 0) {
      return tower_.encode(order, images, tower_.rows(order.buffer, 0, order.n_rows), outcomes);
    }
    const Matrix out = intake_.landing(order.first_row, 0, order.n_rows);
    if (Status encoded = tower_.encode(order, images, out, outcomes); !encoded) return encoded;
    int64_t row = 0;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const int64_t n = order.items[i].n_rows;
      if (outcomes[i] == ImageOutcome::kOk) {
        const auto accepted = intake_.accept(order.first_row + row, row, n);
        if (!accepted) return std::unexpected(accepted.error());
        outcomes[i] = *accepted;
      }
      row += n;
    }
    return {};
  }

  EncodeOrder order;
  std::vector<std::shared_ptr<const ImagePatches>> images;  // one an item
  std::vector<ImageOutcome> outcomes;                       // result, one an item

 private:
  TowerOutput& tower_;
  EmbeddingIntake& intake_;
};

// The unit's lane: a tower's buffer -> receive slots.
class TransferWork final : public WorkOrder {
 public:
  TransferWork(const TowerOutput& tower, EmbeddingIntake& intake, PeerLink& link, bool verify)
      : tower_(tower), intake_(intake), link_(link), verify_(verify) {}
  Kind kind() const override { return Kind::kTransfer; }
  Status execute() override {
    std::vector<CopyRun> runs;
    for (const TransferOrder::Item& item : order.items) {
      runs.push_back({tower_.rows(order.buffer, item.buffer_row, item.n_rows).data,
                      intake_.landing(item.first_row, item.buffer_row, item.n_rows).data,
                      static_cast<size_t>(item.n_rows) * tower_.row_bytes()});
    }
    outcomes.assign(order.items.size(), ImageOutcome::kFailed);
    const Result<LinkCopy> done = link_.copy(runs, verify_);
    is_source_lost = link_.is_source_lost();
    if (!done) return std::unexpected(done.error());
    copy = *done;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const TransferOrder::Item& item = order.items[i];
      const auto accepted = intake_.accept(item.first_row, item.buffer_row, item.n_rows);
      if (!accepted) return std::unexpected(accepted.error());
      outcomes[i] = *accepted;
    }
    return {};
  }

  TransferOrder order;
  std::vector<ImageOutcome> outcomes;  // result, one an item
  LinkCopy copy;                       // result
  bool is_source_lost = false;         // of a copy that failed: the tower's device, not the unit's

 private:
  const TowerOutput& tower_;
  EmbeddingIntake& intake_;
  PeerLink& link_;
  bool verify_;
};

// The receiving unit's lane: KV blocks of a request from another unit's cache.
class KvWork final : public WorkOrder {
 public:
  KvWork(const KvView& from, const KvView& to, PeerLink& link, bool verify)
      : from_(from), to_(to), link_(link), verify_(verify) {}
  Kind kind() const override { return Kind::kKv; }
  Status execute() override {
    std::vector<CopyRun> runs;
    for (const KvMove& move : order.moves)
      from_.append_runs(to_, move.from, move.to, move.n_rows, runs);
    const Result<LinkCopy> done = link_.copy(runs, verify_);
    is_source_lost = link_.is_source_lost();
    if (!done) return std::unexpected(done.error());
    copy = *done;
    return {};
  }

  KvOrder order;
  LinkCopy copy;                // result
  bool is_source_lost = false;  // of a copy that failed: the device it came from

 private:
  KvView from_;
  KvView to_;
  PeerLink& link_;
  bool verify_;
};

// One step of a unit's language model, the same for all its ranks. Used again for every step, so
// that its vectors keep their memory.
struct UnitStep {
  StepOrder order;
  LanguageStep step;
  std::vector<SampledToken> sampled;  // rank 0's result, one a sampling item
};

// The lane of one of the unit's devices: its rank's share of the step.
class StepWork final : public WorkOrder {
 public:
  StepWork(LanguageModel& model, UnitStep& unit_step, int32_t unit_index, int32_t rank_index)
      : unit(unit_index), rank(rank_index), model_(model), step_(unit_step) {}
  Kind kind() const override { return Kind::kStep; }
  Status execute() override {
    const int64_t before = model_.bytes_received(rank);
    Status done = model_.step_rank(
        rank, step_.step, rank == 0 ? std::span(step_.sampled) : std::span<SampledToken>{});
    bytes = model_.bytes_received(rank) - before;
    return done;
  }

  const int32_t unit;
  const int32_t rank;
  int64_t bytes = 0;  // result: read from the other ranks' devices

 private:
  LanguageModel& model_;
  UnitStep& step_;
};

}  // namespace hs
