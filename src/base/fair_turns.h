// Who goes next where several tenants queue as much as they like: start-time fair queueing (Goyal,
// Vin, Cheng 1996). Each request gets its place when it arrives, so the order never changes
// afterwards; the virtual token counter of fair serving (Sheng et al. 2024) orders alike, but by
// counters that move while requests wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace hs {

// A tenant's requests stand behind each other, each as far apart as the one before it costs; a
// tenant that has been away begins where the service is now, so it waits for about one request of
// each other tenant and saves nothing up. One tenant alone is served in order of arrival. No clock,
// no thread: the same calls give the same places.
class FairTurns {
 public:
  // The place of a request that arrives: lower goes first. No two that are here are equal; one that
  // arrives stands behind all that have begun, and behind all others of its tenant. `cost` is what
  // it is expected to take, in any one unit, at least 1.
  uint64_t arrive(uint64_t tenant, uint64_t cost);
  // It is served from now on; a second call changes nothing.
  void begin(uint64_t turn);
  // It is gone, whether it ever began or not. What it took beyond the cost or below it counts for
  // the tenant's next request.
  void end(uint64_t turn, uint64_t spent);

  // Requests that have not begun, and all that are here.
  int32_t n_waiting(uint64_t tenant) const;
  int32_t n_here(uint64_t tenant) const;
  int32_t n_tenants_waiting() const;
  bool empty() const { return requests_.empty(); }

 private:
  struct Request {
    uint64_t tenant = 0;
    uint64_t cost = 0;
    bool begun = false;
  };
  struct Tenant {
    uint64_t next = 0;   // where the next request would stand
    uint64_t after = 0;  // but not before this: one past its last one
    int32_t n_waiting = 0;
    int32_t n_here = 0;
  };

  std::unordered_map<uint64_t, Request> requests_;  // by turn
  std::unordered_map<uint64_t, Tenant> tenants_;
  uint64_t now_ = 0;  // the last place that has begun
};

}  // namespace hs
