// Who may do what: the keys that are in force, what each may use, and what it uses now.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/api_keys.h"

namespace hs {

// Requests of one key that are under way. A holder counts as one for as long as it lives.
class KeyTicket {
 public:
  // Of whoever needs no key: all of them are one tenant.
  KeyTicket() = default;
  KeyTicket(std::shared_ptr<int64_t> under_way, const ApiKey& key)
      : under_way_(std::move(under_way)),
        tenant_(static_cast<uint64_t>(key.id)),
        may_hurry_(key.admin) {
    ++*under_way_;
  }
  KeyTicket(KeyTicket&& other) noexcept
      : under_way_(std::move(other.under_way_)),
        tenant_(other.tenant_),
        may_hurry_(other.may_hurry_) {}
  KeyTicket& operator=(KeyTicket&& other) noexcept {
    release();
    under_way_ = std::move(other.under_way_);
    tenant_ = other.tenant_;
    may_hurry_ = other.may_hurry_;
    return *this;
  }
  ~KeyTicket() { release(); }

  // Tenants take turns.
  uint64_t tenant() const { return tenant_; }
  // Whether its requests may go before those of others.
  bool may_hurry() const { return may_hurry_; }

 private:
  void release() {
    if (under_way_ != nullptr) --*under_way_;
    under_way_.reset();
  }
  std::shared_ptr<int64_t> under_way_;
  uint64_t tenant_ = 0;  // keys' numbers begin at 1
  bool may_hurry_ = true;
};

// Loop thread only.
class KeyRing {
 public:
  // `keys` may hold revoked ones. Keys that stay keep their counts. Once any key was ever made,
  // keys are on and stay on: revoking the last one, or losing the file, locks the server.
  void set_keys(const std::vector<ApiKey>& keys);
  bool on() const { return on_; }

  // The key of an Authorization header, "Bearer hs-..."; null: none, or none that is in force.
  // Looked up by its hash, so that times tell nothing of the keys.
  const ApiKey* find(std::string_view authorization) const;

  // The limits of a key, as a refusal. retry_after_s is at least 1.
  struct Refusal {
    Error error;
    int64_t retry_after_s = 1;
  };
  std::optional<Refusal> check(const ApiKey& key, int64_t now_us) const;
  // Counts a request that passed check().
  KeyTicket begin(const ApiKey& key, int64_t now_us);

 private:
  // A bucket that holds a minute's requests and fills evenly: bursts up to the limit, the limit
  // over time.
  struct Entry {
    ApiKey key;
    std::shared_ptr<int64_t> under_way = std::make_shared<int64_t>(0);
    double tokens = 0;
    int64_t filled_us = 0;
  };
  static double tokens_at(const Entry& entry, int64_t now_us);

  std::map<KeyHash, Entry> entries_;
  bool on_ = false;
};

}  // namespace hs
