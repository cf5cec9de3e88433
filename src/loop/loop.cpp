#include "loop/loop.h"

#include <fmt/format.h>
#include <uv.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "base/check.h"

namespace hs {
namespace {

constexpr uint64_t kLagPeriodMs = 20;
constexpr size_t kReadBufferBytes = 64 * 1024;

}  // namespace

void LagHistogram::add(double seconds) {
  for (size_t i = 0; i < kUpperSeconds.size(); ++i)
    if (seconds <= kUpperSeconds[i]) ++counts[i];
  ++total;
  sum_seconds += seconds;
}

struct Loop::State {
  uv_loop_t loop{};
  uv_timer_t lag_timer{};
  uint64_t lag_due_ns = 0;
  LagHistogram lag;
  // libuv asks for a buffer right before it reads and delivers right after, so all streams share
  // one.
  std::vector<char> read_buffer = std::vector<char>(kReadBufferBytes);

  void arm_lag_timer() {
    lag_due_ns = uv_hrtime() + kLagPeriodMs * 1'000'000;
    HS_CHECK_EQ(uv_timer_start(&lag_timer, &State::on_lag_timer, kLagPeriodMs, 0), 0);
  }

  static void on_lag_timer(uv_timer_t* timer) {
    auto* state = static_cast<State*>(timer->data);
    const uint64_t now_ns = uv_hrtime();
    // libuv counts in whole milliseconds, so a timer may also run up to one early.
    const uint64_t late_ns = now_ns - std::min(now_ns, state->lag_due_ns);
    state->lag.add(static_cast<double>(late_ns) * 1e-9);
    state->arm_lag_timer();
  }
};

Loop::Loop() : state_(std::make_unique<State>()) {
  // A write to a closed connection is an error value here, not a signal.
  HS_CHECK(std::signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  HS_CHECK_EQ(uv_loop_init(&state_->loop), 0);
  HS_CHECK_EQ(uv_timer_init(&state_->loop, &state_->lag_timer), 0);
  state_->lag_timer.data = state_.get();
  state_->arm_lag_timer();
  uv_unref(reinterpret_cast<uv_handle_t*>(&state_->lag_timer));
}

Loop::~Loop() {
  uv_close(reinterpret_cast<uv_handle_t*>(&state_->lag_timer), nullptr);
  uv_walk(
      &state_->loop,
      [](uv_handle_t* handle, void*) {
        if (uv_is_closing(handle) == 0)
          check_failed(__FILE__, __LINE__,
                       fmt::format("a {} outlives its loop",
                                   uv_handle_type_name(uv_handle_get_type(handle))));
      },
      nullptr);
  // Close callbacks of owners that are gone, and worker jobs that still run.
  do {
    uv_run(&state_->loop, UV_RUN_DEFAULT);
  } while (uv_loop_alive(&state_->loop) != 0);
  HS_CHECK_EQ(uv_loop_close(&state_->loop), 0);
}

void Loop::run() {
  uv_run(&state_->loop, UV_RUN_DEFAULT);
}

void Loop::run_once(bool wait) {
  uv_run(&state_->loop, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

void Loop::stop() {
  uv_stop(&state_->loop);
}

int64_t Loop::now_us() const {
  return static_cast<int64_t>(uv_hrtime() / 1000);
}

const LagHistogram& Loop::lag() const {
  return state_->lag;
}

uv_loop_s* Loop::uv() const {
  return &state_->loop;
}

std::span<char> Loop::read_buffer() const {
  return state_->read_buffer;
}

}  // namespace hs
