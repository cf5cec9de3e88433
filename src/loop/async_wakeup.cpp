#include "loop/async_wakeup.h"

#include <uv.h>

#include <utility>

#include "base/check.h"

namespace hs {

struct AsyncWakeup::Handle {
  uv_async_t async{};
  std::function<void()> callback;
};

AsyncWakeup::AsyncWakeup(Loop& loop, std::function<void()> callback, bool keep_alive)
    : handle_(new Handle) {
  handle_->callback = std::move(callback);
  const auto on_wakeup = [](uv_async_t* async) { static_cast<Handle*>(async->data)->callback(); };
  HS_CHECK_EQ(uv_async_init(loop.uv(), &handle_->async, on_wakeup), 0);
  handle_->async.data = handle_;
  if (!keep_alive) uv_unref(reinterpret_cast<uv_handle_t*>(&handle_->async));
}

AsyncWakeup::~AsyncWakeup() {
  uv_close(reinterpret_cast<uv_handle_t*>(&handle_->async),
           [](uv_handle_t* handle) { delete static_cast<Handle*>(handle->data); });
}

void AsyncWakeup::send() {
  HS_CHECK_EQ(uv_async_send(&handle_->async), 0);
}

}  // namespace hs
