#include "model/sharded_language.h"

#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"

namespace hs {

ShardedLanguage::ShardedLanguage(std::unique_ptr<Communicator> group,
                                 std::vector<std::unique_ptr<LanguageModel>> ranks)
    : group_(std::move(group)), ranks_(std::move(ranks)) {
  HS_CHECK_EQ(std::ssize(ranks_), group_->size());
}

Status ShardedLanguage::allocate_kv(int64_t n_blocks) {
  stopped_ = false;
  n_returned_ = 0;
  group_->reset();
  for (const auto& rank : ranks_) {
    if (Status allocated = rank->allocate_kv(n_blocks); !allocated) return allocated;
  }
  return {};
}

// Whatever way a rank fails, nobody goes on waiting for it. The last to return leaves the group
// ready for the next step.
Status ShardedLanguage::run_rank(FunctionRef<Status()> work) {
  Status status;
  try {
    status = work();
  } catch (const std::exception& e) {
    status = fail(ErrorKind::kInternal, e.what());
  }
  if (!status) group_->abort();
  if (n_returned_.fetch_add(1) + 1 == n_ranks()) {
    n_returned_ = 0;
    if (!stopped_) group_->reset();
  }
  return status;
}

Status ShardedLanguage::step_rank(int32_t rank, const LanguageStep& its_step,
                                  std::span<SampledToken> out) {
  return run_rank([&] { return ranks_.at(static_cast<size_t>(rank))->step(its_step, out); });
}

void ShardedLanguage::stop_ranks() {
  stopped_ = true;
  group_->abort();
}

// No rank begins before all have a thread: one that never comes would be waited for.
Status ShardedLanguage::run_all(FunctionRef<Status(int32_t rank)> work) {
  enum Go { kWait, kRun, kLeave };
  std::vector<Status> results(ranks_.size());
  std::atomic<int> go = kWait;
  {
    std::vector<std::jthread> threads;
    const auto tell = [&](Go what) {
      go.store(what);
      go.notify_all();
    };
    try {
      for (int32_t rank = 1; rank < n_ranks(); ++rank) {
        threads.emplace_back([&, rank] {
          go.wait(kWait);
          if (go.load() == kRun) results[static_cast<size_t>(rank)] = work(rank);
        });
      }
    } catch (const std::system_error& e) {
      tell(kLeave);
      return fail(ErrorKind::kResourceExhausted,
                  std::string("no thread for each rank of the model: ") + e.what());
    }
    tell(kRun);
    results[0] = work(0);
  }
  Status result;
  for (Status& status : results) {
    if (!status && (result.has_value() || is_group_abort(result))) result = std::move(status);
  }
  return result;
}

Status ShardedLanguage::step(const LanguageStep& its_step, std::span<SampledToken> out) {
  return run_all([&](int32_t rank) {
    return step_rank(rank, its_step, rank == 0 ? out : std::span<SampledToken>{});
  });
}

Status ShardedLanguage::logits(const LanguageStep& its_step, std::vector<float>& logits) {
  return run_all([&](int32_t rank) {
    std::vector<float> none;
    return run_rank([&] {
      return ranks_[static_cast<size_t>(rank)]->logits(its_step, rank == 0 ? logits : none);
    });
  });
}

}  // namespace hs
