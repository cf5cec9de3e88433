// What the engine gives its lanes to do.
#pragma once

#include <memory>
#include <vector>

#include "engine/embedding_transfer.h"
#include "engine/lane.h"
#include "engine/scheduler.h"
#include "model/model.h"

namespace hs {

// Vision lane: encode pictures into their receive slots or a transfer buffer.
class EncodeWork final : public WorkOrder {
 public:
  explicit EncodeWork(EmbeddingTransfer& embeddings) : embeddings_(embeddings) {}
  Kind kind() const override { return Kind::kEncode; }
  Status execute() override {
    outcomes.assign(order.items.size(), ImageOutcome::kFailed);
    return embeddings_.encode(order, images, outcomes);
  }

  EncodeOrder order;
  std::vector<std::shared_ptr<const ImagePatches>> images;  // one an item
  std::vector<ImageOutcome> outcomes;                       // result, one an item

 private:
  EmbeddingTransfer& embeddings_;
};

// Language lane: transfer buffer -> receive slots.
class TransferWork final : public WorkOrder {
 public:
  explicit TransferWork(EmbeddingTransfer& embeddings) : embeddings_(embeddings) {}
  Kind kind() const override { return Kind::kTransfer; }
  Status execute() override {
    const Result<int64_t> moved = embeddings_.transfer(order);
    if (!moved) return std::unexpected(moved.error());
    bytes = *moved;
    return {};
  }

  TransferOrder order;
  int64_t bytes = 0;  // result

 private:
  EmbeddingTransfer& embeddings_;
};

// Language lane: one step of the language model. Used again for every step, so that its vectors
// keep their memory.
class StepWork final : public WorkOrder {
 public:
  explicit StepWork(LanguageModel& model) : model_(model) {}
  Kind kind() const override { return Kind::kStep; }
  Status execute() override { return model_.step(step, sampled); }

  StepOrder order;
  LanguageStep step;
  std::vector<SampledToken> sampled;  // result, one a sampling item

 private:
  LanguageModel& model_;
};

}  // namespace hs
