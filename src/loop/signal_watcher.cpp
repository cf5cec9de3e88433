#include "loop/signal_watcher.h"

#include <uv.h>

#include <memory>
#include <utility>

#include "base/check.h"

namespace hs {

struct SignalWatcher::Handle {
  uv_signal_t signal{};
  std::shared_ptr<std::function<void(int)>> callback;  // shared by the watcher's signals
};

SignalWatcher::SignalWatcher(Loop& loop, std::initializer_list<int> signals,
                             std::function<void(int)> callback) {
  const auto shared = std::make_shared<std::function<void(int)>>(std::move(callback));
  const auto on_signal = [](uv_signal_t* signal, int number) {
    // Held here, because the callback may destroy the watcher.
    const auto call = static_cast<Handle*>(signal->data)->callback;
    (*call)(number);
  };
  for (const int number : signals) {
    auto* handle = new Handle;
    handle->callback = shared;
    HS_CHECK_EQ(uv_signal_init(loop.uv(), &handle->signal), 0);
    handle->signal.data = handle;
    HS_CHECK_EQ(uv_signal_start(&handle->signal, on_signal, number), 0);
    uv_unref(reinterpret_cast<uv_handle_t*>(&handle->signal));
    handles_.push_back(handle);
  }
}

SignalWatcher::~SignalWatcher() {
  for (Handle* handle : handles_)
    uv_close(reinterpret_cast<uv_handle_t*>(&handle->signal),
             [](uv_handle_t* closed) { delete static_cast<Handle*>(closed->data); });
}

}  // namespace hs
