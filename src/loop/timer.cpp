#include "loop/timer.h"

#include <uv.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hs {

struct Timer::Handle {
  uv_timer_t timer{};
  std::function<void()> callback;
};

Timer::Timer(Loop& loop, std::function<void()> callback) : handle_(new Handle) {
  handle_->callback = std::move(callback);
  HS_CHECK_EQ(uv_timer_init(loop.uv(), &handle_->timer), 0);
  handle_->timer.data = handle_;
}

Timer::~Timer() {
  uv_timer_stop(&handle_->timer);
  uv_close(reinterpret_cast<uv_handle_t*>(&handle_->timer),
           [](uv_handle_t* handle) { delete static_cast<Handle*>(handle->data); });
}

void Timer::start(int64_t delay_ms, int64_t repeat_ms) {
  const auto on_timer = [](uv_timer_t* timer) { static_cast<Handle*>(timer->data)->callback(); };
  // The loop's idea of now may be as old as the callback that is running.
  uv_update_time(handle_->timer.loop);
  HS_CHECK_EQ(uv_timer_start(&handle_->timer, on_timer,
                             static_cast<uint64_t>(std::max<int64_t>(delay_ms, 0)),
                             static_cast<uint64_t>(std::max<int64_t>(repeat_ms, 0))),
              0);
}

void Timer::stop() {
  uv_timer_stop(&handle_->timer);
}

bool Timer::active() const {
  return uv_is_active(reinterpret_cast<const uv_handle_t*>(&handle_->timer)) != 0;
}

}  // namespace hs
