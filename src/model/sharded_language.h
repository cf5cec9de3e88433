// A language model that several devices share: its ranks, and what keeps them together.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "device/communicator.h"
#include "model/model.h"

namespace hs {

class ShardedLanguage final : public LanguageModel {
 public:
  // ranks[i] stands on the group's device i and makes its calls to `group` inside its step().
  ShardedLanguage(std::unique_ptr<Communicator> group,
                  std::vector<std::unique_ptr<LanguageModel>> ranks);

  int32_t n_ranks() const override { return group_->size(); }
  Status allocate_kv(int64_t n_blocks) override;
  KvView kv() const override { return ranks_.front()->kv(); }
  Status step_rank(int32_t rank, const LanguageStep& its_step,
                   std::span<SampledToken> out) override;
  void stop_ranks() override;
  int64_t bytes_received(int32_t rank) const override { return group_->bytes_received(rank); }
  // All ranks, each on a thread of its own that lives as long as the call: for tests and tools.
  Status step(const LanguageStep& its_step, std::span<SampledToken> out) override;
  Status logits(const LanguageStep& its_step, std::vector<float>& logits) override;

 private:
  Status run_rank(FunctionRef<Status()> work);
  Status run_all(FunctionRef<Status(int32_t rank)> work);

  std::unique_ptr<Communicator> group_;
  std::vector<std::unique_ptr<LanguageModel>> ranks_;
  std::atomic<int32_t> n_returned_ = 0;  // ranks that are done with the step
  std::atomic<bool> stopped_ = false;
};

}  // namespace hs
