#include "base/fair_turns.h"

#include <algorithm>

#include "base/check.h"

namespace hs {

uint64_t FairTurns::arrive(uint64_t tenant_id, uint64_t cost) {
  HS_CHECK_GT(cost, uint64_t{0});
  Tenant& tenant = tenants_[tenant_id];
  const uint64_t place = std::max(now_, tenant.next);
  // A place that is taken costs nothing: one further back will do.
  uint64_t turn = std::max(place, tenant.after);
  while (!requests_.try_emplace(turn, Request{.tenant = tenant_id, .cost = cost}).second) ++turn;
  tenant.next = place + cost;
  tenant.after = turn + 1;
  ++tenant.n_waiting;
  ++tenant.n_here;
  return turn;
}

void FairTurns::begin(uint64_t turn) {
  Request& request = requests_.at(turn);
  if (request.begun) return;
  request.begun = true;
  --tenants_.at(request.tenant).n_waiting;
  now_ = std::max(now_, turn);
}

void FairTurns::end(uint64_t turn, uint64_t spent) {
  const auto found = requests_.find(turn);
  HS_CHECK(found != requests_.end());
  const Request request = found->second;
  requests_.erase(found);
  if (requests_.empty()) {
    // Nobody is owed anything once all have been served.
    tenants_.clear();
    now_ = 0;
    return;
  }
  const auto entry = tenants_.find(request.tenant);
  Tenant& tenant = entry->second;
  if (!request.begun) --tenant.n_waiting;
  tenant.next = tenant.next + spent - std::min(request.cost, tenant.next + spent);
  if (--tenant.n_here == 0 && std::max(tenant.next, tenant.after) <= now_) tenants_.erase(entry);
}

int32_t FairTurns::n_waiting(uint64_t tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.n_waiting;
}

int32_t FairTurns::n_here(uint64_t tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.n_here;
}

int32_t FairTurns::n_tenants_waiting() const {
  return static_cast<int32_t>(std::ranges::count_if(
      tenants_, [](const auto& entry) { return entry.second.n_waiting > 0; }));
}

}  // namespace hs
