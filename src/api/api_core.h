// What all requests share: the model, the engine, workers, clock, metrics, log. Loop thread only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "api/held_body.h"
#include "api/key_ring.h"
#include "api/preparation.h"
#include "api/served_model.h"
#include "api/server_metrics.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "loop/worker_pool.h"
#include "store/cost_account.h"
#include "store/request_row.h"

namespace hs {

class Exchange;
class PictureFetcher;

// Also finds by a plain pointer.
struct ByAddress {
  using is_transparent = void;
  static const void* address(const std::shared_ptr<Exchange>& exchange) { return exchange.get(); }
  static const void* address(const Exchange* exchange) { return exchange; }
  bool operator()(const auto& a, const auto& b) const {
    return std::less<>()(address(a), address(b));
  }
};

// What reading a body is taken to cost its tenant: bytes, and something for the request itself.
inline JobShare preparation_share(const KeyTicket& ticket, size_t body_bytes) {
  constexpr uint64_t kRequestBytes = 4096;
  return {ticket.tenant(), kRequestBytes + body_bytes};
}

struct ApiCore {
  ApiCore(WorkerPool& with_workers, const Clock& with_clock)
      : workers(with_workers), clock(with_clock) {}

  WorkerPool& workers;
  const Clock& clock;
  PreparationLimits limits;
  std::function<void(RequestRow)> log_row;  // never blocks
  CostAccount* costs = nullptr;             // may be null
  std::shared_ptr<HeldBodies> bodies;       // of requests that are not prepared yet
  // Prepared pictures of unfinished requests: many times their files, and kept until the end,
  // because a preempted request may need them again.
  size_t pixel_bytes = 0;
  size_t pixel_bytes_max = SIZE_MAX;
  int32_t n_preparing = 0;  // requests that wait for a worker or have one

  // Set once the model is loaded. Workers share the model with the core.
  std::shared_ptr<const ServedModel> model;
  Engine* engine = nullptr;
  PictureFetcher* pictures = nullptr;  // null: none are fetched

  KeyRing keys;
  ServerMetrics metrics;
  std::set<std::shared_ptr<Exchange>, ByAddress> exchanges;  // unfinished
  std::mt19937_64 random{std::random_device{}()};
  std::set<std::string, std::less<>> warned_fields;  // unknown request fields, bounded

  // 24 hexadecimal digits.
  std::string new_id();

  // Fetches what remote.wanted names, counts it, and calls `done` on the loop thread with the first
  // error, its param set. REQUIRES: remote.needs_fetch(), pictures. An error: `done` is never
  // called. `job` owns remote and body and is what `cancelled` belongs to.
  Status fetch_pictures(const std::shared_ptr<void>& job, RemotePictures& remote, HeldBody& body,
                        const std::atomic<bool>& cancelled,
                        std::move_only_function<void(Status, int64_t bytes)> done);
};

}  // namespace hs
