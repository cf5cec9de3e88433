#include "app/bench_play.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/check.h"

namespace hs {
namespace {

class Recorder final : public RequestSink {
 public:
  explicit Recorder(const Clock& clock) : clock_(clock) {}

  void on_text(int32_t choice, std::string_view text, std::vector<TokenLogprob>,
               int32_t n_tokens) override {
    played.text += text;
    if (counts_.size() <= static_cast<size_t>(choice))
      counts_.resize(static_cast<size_t>(choice) + 1);
    Count& count = counts_[static_cast<size_t>(choice)];
    const int32_t n_new = n_tokens - count.n_tokens;
    if (n_new == 0) return;
    const int64_t now_us = clock_.now_us();
    if (count.n_tokens > 0) {
      played.gaps_us.insert(played.gaps_us.end(), static_cast<size_t>(n_new),
                            static_cast<double>(now_us - count.last_us) / n_new);
    }
    count = {n_tokens, now_us};
    played.n_tokens += n_new;
  }
  void on_choice_finished(int32_t, FinishReason, std::string_view) override {}
  void on_done(const RequestUsage& usage, const RequestTimings& timings,
               const Error* error) override {
    played.usage = usage;
    played.timings = timings;
    if (error != nullptr) played.error = *error;
    done = true;
  }

  PlayedRequest played;
  bool done = false;

 private:
  struct Count {
    int32_t n_tokens = 0;
    int64_t last_us = 0;
  };

  const Clock& clock_;
  std::vector<Count> counts_;  // of each choice
};

// What stands between the requests that are under way and those to come.
class Player {
 public:
  Player(Engine& engine, const Clock& clock, std::span<const GenerateRequest> requests,
         const Schedule& schedule)
      : engine_(engine),
        clock_(clock),
        requests_(requests),
        schedule_(schedule),
        begin_us_(clock.now_us()) {}

  bool all_submitted() const { return recorders_.size() == requests_.size(); }
  size_t n_done() const {
    return static_cast<size_t>(std::ranges::count(recorders_, true, &Recorder::done));
  }

  // Submits what is due; returns how long until something may be.
  Result<int64_t> submit_due() {
    constexpr int64_t kLongUs = 1'000'000;
    while (!all_submitted()) {
      const size_t next = recorders_.size();
      const int64_t now_us = clock_.now_us();
      if (next - n_done() >= schedule_.at_once) return kLongUs;
      if (!schedule_.due_s.empty()) {
        const int64_t due_us = begin_us_ + static_cast<int64_t>(schedule_.due_s[next] * 1e6);
        if (due_us > now_us) return std::min(due_us - now_us, kLongUs);
      }
      auto recorder = std::make_shared<Recorder>(clock_);
      const auto id = engine_.submit(requests_[next], recorder);
      if (!id) return std::unexpected(id.error());
      recorder->played.id = *id;
      recorder->played.submitted_us = now_us;
      recorders_.push_back(std::move(recorder));
    }
    return kLongUs;
  }

  Played take() {
    Played played;
    played.seconds = static_cast<double>(clock_.now_us() - begin_us_) * 1e-6;
    for (const auto& recorder : recorders_) played.requests.push_back(std::move(recorder->played));
    return played;
  }

 private:
  Engine& engine_;
  const Clock& clock_;
  std::span<const GenerateRequest> requests_;
  const Schedule& schedule_;
  int64_t begin_us_;
  std::vector<std::shared_ptr<Recorder>> recorders_;
};

}  // namespace

Result<Played> play(Engine& engine, const Clock& clock, WakeUp& wake,
                    std::span<const GenerateRequest> requests, const Schedule& schedule) {
  HS_CHECK(schedule.due_s.empty() || schedule.due_s.size() == requests.size());
  HS_CHECK_GT(schedule.at_once, 0U);
  Player player(engine, clock, requests, schedule);
  for (;;) {
    const Result<int64_t> wait_us = player.submit_due();
    if (!wait_us) return std::unexpected(wait_us.error());
    const size_t n_done = player.n_done();
    engine.poll();
    if (player.all_submitted() && engine.idle()) return player.take();
    // One that is done makes room for the next, and nobody says so again.
    if (player.n_done() == n_done) wake.wait_for(std::chrono::microseconds(*wait_us));
  }
}

}  // namespace hs
