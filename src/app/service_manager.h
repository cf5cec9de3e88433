// What the service manager (systemd) is told and what it hands over: sd_notify(3),
// sd_listen_fds(3). Datagrams to a socket of the environment; without one nothing happens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/engine.h"

namespace hs {

class ServiceManager {
 public:
  using Environment = std::function<const char*(const char*)>;
  explicit ServiceManager(const Environment& environment);
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // Lines of NAME=value: "READY=1\nSTATUS=serving". Never blocks; what cannot be sent is dropped,
  // and the journal told once.
  void notify(std::string_view lines);
  // STATUS=, when it is another text than the last.
  void status(std::string_view text);
  // How often a sign of life is due: half of what the manager waits for. 0: it does not watch.
  int64_t ping_interval_us() const { return ping_interval_us_; }

 private:
  int socket_ = -1;
  std::string address_;  // sockaddr_un, as bytes
  std::string last_status_;
  int64_t ping_interval_us_ = 0;
  bool failed_ = false;
};

// Signs of life, for as long as no device hangs.
class Watchdog {
 public:
  // A lane at one order for `hang_us` hangs; 0: none ever does.
  Watchdog(ServiceManager& manager, int64_t hang_us) : manager_(manager), hang_us_(hang_us) {}
  // Once every ping interval. `lanes`: of the engine, none before it is there; `now_us`: by the
  // engine's clock. Lost devices do not count: they are known not to answer.
  void beat(std::span<const LaneStats> lanes, int64_t now_us);
  // The same while the model loads: `percent` that stays where it is for `hang_us` hangs.
  void beat_loading(int32_t percent, int64_t now_us);

 private:
  void ping(const std::string& hangs);
  ServiceManager& manager_;
  const int64_t hang_us_;
  bool hanging_ = false;
  int32_t percent_ = -1;
  int64_t percent_since_us_ = 0;
};

// A listening socket that came with the process.
struct InheritedSocket {
  int descriptor = -1;
  std::string host;  // it is bound to: "127.0.0.1"
};
// nullopt: none. kInvalidArgument: several, or not a TCP socket.
Result<std::optional<InheritedSocket>> inherited_socket(
    const ServiceManager::Environment& environment);

}  // namespace hs
