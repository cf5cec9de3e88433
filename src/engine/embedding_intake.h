// The language side of the hand-over: how a picture's rows get into the unit's receive slots. As
// embeddings they are put there directly; as features they land beside them, and the projector
// makes embeddings of them. Allocated once.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "device/device.h"
#include "engine/embedding_memory.h"
#include "engine/scheduler.h"
#include "model/model.h"

namespace hs {

class EmbeddingIntake {
 public:
  struct Options {
    int32_t dim = 0;                 // width of an embedding
    int64_t n_rows = 0;              // receive slots
    Projector* projector = nullptr;  // null: embeddings arrive
    int32_t feature_dim = 0;         // with a projector
    int64_t max_arriving_rows = 0;   // of one order
  };
  // The device and the projector on it must outlive the result.
  static Result<std::unique_ptr<EmbeddingIntake>> create(Device& device, const Options& options);
  EmbeddingIntake(const EmbeddingIntake&) = delete;
  EmbeddingIntake& operator=(const EmbeddingIntake&) = delete;

  const EmbeddingMemory& memory() const { return memory_; }

  // Where n rows are to be written that belong into the slots from `slot_row` on and are the
  // order's rows from `order_row` on. Any thread.
  Matrix landing(int64_t slot_row, int64_t order_row, int64_t n);
  // The unit's lane: the rows have landed and the slots are to hold their embeddings when it
  // returns. kFailed when the projector gave a NaN or infinity; what landed was finite.
  Result<ImageOutcome> accept(int64_t slot_row, int64_t order_row, int64_t n);

 private:
  EmbeddingIntake(Device& device, const Options& options, EmbeddingMemory memory)
      : device_(device), options_(options), memory_(std::move(memory)) {}

  Device& device_;
  Options options_;
  EmbeddingMemory memory_;
  Buffer features_;  // (max_arriving_rows, feature_dim)
};

}  // namespace hs
