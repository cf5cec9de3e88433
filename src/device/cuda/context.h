// One GPU, and what has gone wrong on it.
//
// Every call of the CUDA runtime is made through check(): a failure becomes an Error that names the
// device, the call, CUDA's own words, and the place. Failures that leave the device's context
// unusable (an illegal address, a fault of the memory, a GPU that fell off the bus) mark the device
// as lost: from then on everything ends with kUnavailable, code "device_lost", at once.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hs::cuda {

class Context {
 public:
  explicit Context(int index) : index_(index) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int index() const { return index_; }
  // Makes the device the calling thread's current one.
  Status use();

  // Any thread. `call` and `file` are literals.
  Status check(cudaError_t status, const char* call, const char* file, int line);
  // What the library of a product says is no cudaError_t.
  Status check_text(bool ok, std::string_view text, const char* call, const char* file, int line);
  bool is_lost() const { return is_lost_.load(std::memory_order_relaxed); }

  // Failures of ops, which cannot return them: the first is kept until the next take_deferred().
  void defer(Status status);
  Status take_deferred();

 private:
  std::unexpected<Error> lost() const;

  int index_;
  std::atomic<bool> is_lost_ = false;
  mutable std::mutex mutex_;  // guards what follows
  std::string why_lost_;
  std::optional<Error> deferred_;
};

// Whether the device's context cannot be used any more after this error.
bool is_sticky(cudaError_t status);

}  // namespace hs::cuda

// Status of one call of the CUDA runtime.
#define HS_CUDA(context, call) (context).check((call), #call, __FILE__, __LINE__)
// Returns from a function of Status or Result when a call, or an expression of Status, failed.
#define HS_CUDA_TRY(context, call)                                              \
  if (::hs::Status hs_status = HS_CUDA(context, call); !hs_status) [[unlikely]] \
  return std::unexpected(std::move(hs_status.error()))
#define HS_TRY(expression)                                            \
  if (::hs::Status hs_status = (expression); !hs_status) [[unlikely]] \
  return std::unexpected(std::move(hs_status.error()))
