// Streams and events that are given back when they go. A cudaStream_t or cudaEvent_t is one that
// somebody else owns.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "device/cuda/context.h"

namespace hs::cuda {

class Stream {
 public:
  // kUrgent stands before kNormal when both could run.
  enum class Priority { kNormal, kUrgent };

  Stream() = default;
  // On the context's device; does not wait for the legacy default stream.
  static Result<Stream> create(Context& context, Priority priority);
  Stream(Stream&& other) noexcept
      : stream_(std::exchange(other.stream_, nullptr)), device_(other.device_) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(device_, other.device_);
    return *this;
  }
  ~Stream() {
    if (stream_ == nullptr) return;
    cudaSetDevice(device_);  // the thread's may be another, and lost
    cudaStreamDestroy(stream_);
  }

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  int device_ = 0;
};

// A point in a stream that others can wait for.
class Event {
 public:
  Event() = default;
  static Result<Event> create(Context& context);
  Event(Event&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)), device_(other.device_) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(device_, other.device_);
    return *this;
  }
  ~Event() {
    if (event_ == nullptr) return;
    cudaSetDevice(device_);
    cudaEventDestroy(event_);
  }

  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
  int device_ = 0;
};

}  // namespace hs::cuda
