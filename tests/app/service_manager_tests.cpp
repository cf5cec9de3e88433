// The service manager hears of the server's life through a real datagram socket, and signs of life
// end when a real lane hangs in an order.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "app/service_manager.h"
#include "engine/lane.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

// What a service manager has: a bound socket, and what came in.
class Manager {
 public:
  Manager() {
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    BOOST_REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    environment["NOTIFY_SOCKET"] = path();
  }
  ~Manager() { close(socket_); }
  std::string path() const { return folder_.path() / "notify"; }
  ServiceManager::Environment lookup() {
    return [this](const char* name) -> const char* {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    };
  }
  // Everything since the last call. A datagram of this machine has arrived when sendto() returns.
  std::vector<std::string> heard() {
    std::vector<std::string> all;
    char text[4096];
    for (ssize_t n = 0; (n = recv(socket_, text, sizeof text, 0)) >= 0;)
      all.emplace_back(text, static_cast<size_t>(n));
    return all;
  }
  std::map<std::string, std::string, std::less<>> environment;

 private:
  TempDir folder_;
  int socket_;
};

using Lines = std::vector<std::string>;

// Holds the lane until it is let go.
class HungCall final : public WorkOrder {
 public:
  HungCall(std::promise<void>& begun, std::shared_future<void> go)
      : begun_(begun), go_(std::move(go)) {}
  Kind kind() const override { return Kind::kStep; }
  Status execute() override {
    begun_.set_value();
    go_.wait();
    return {};
  }

 private:
  std::promise<void>& begun_;
  std::shared_future<void> go_;
};

LaneStats stats_of(const Lane& lane) {
  LaneStats stats;
  stats.device = "cuda:0";
  stats.busy_since_us = lane.busy_since_us();
  return stats;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(service_manager_tests)

BOOST_AUTO_TEST_CASE(lines_arrive_as_they_are_and_a_status_once) {
  Manager manager;
  ServiceManager service(manager.lookup());
  service.notify("READY=1");
  service.status("reading weights: 4 %");
  service.status("reading weights: 4 %");
  service.status("reading weights: 5 %");
  service.notify("STOPPING=1");
  BOOST_TEST(manager.heard() == (Lines{"READY=1", "STATUS=reading weights: 4 %",
                                       "STATUS=reading weights: 5 %", "STOPPING=1"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(without_a_socket_or_with_a_dead_one_nothing_happens) {
  const auto none = [](const char*) -> const char* { return nullptr; };
  ServiceManager quiet(none);
  quiet.notify("READY=1");
  BOOST_TEST(quiet.ping_interval_us() == 0);
  Manager manager;
  for (const std::string& name : {std::string("relative"), std::string("/no/such/socket"),
                                  std::string(300, '/'), std::string()}) {
    manager.environment["NOTIFY_SOCKET"] = name;
    ServiceManager service(manager.lookup());
    service.notify("READY=1");
    service.notify("READY=1");
  }
  BOOST_TEST(manager.heard().empty());
}

BOOST_AUTO_TEST_CASE(an_abstract_socket_is_found) {
  const int listener = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  const std::string name = "heteroserve-test-" + std::to_string(getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  BOOST_REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0);
  Manager manager;
  manager.environment["NOTIFY_SOCKET"] = "@" + name;
  ServiceManager(manager.lookup()).notify("READY=1");
  char text[64];
  BOOST_TEST(recv(listener, text, sizeof text, 0) == 7);
  close(listener);
}

BOOST_AUTO_TEST_CASE(pings_are_due_at_half_the_watchdogs_time_of_this_process) {
  Manager manager;
  BOOST_TEST(ServiceManager(manager.lookup()).ping_interval_us() == 0);
  manager.environment["WATCHDOG_USEC"] = "30000000";
  BOOST_TEST(ServiceManager(manager.lookup()).ping_interval_us() == 15'000'000);
  manager.environment["WATCHDOG_PID"] = std::to_string(getpid());
  BOOST_TEST(ServiceManager(manager.lookup()).ping_interval_us() == 15'000'000);
  manager.environment["WATCHDOG_PID"] = std::to_string(getpid() + 1);
  BOOST_TEST(ServiceManager(manager.lookup()).ping_interval_us() == 0);
  manager.environment.erase("WATCHDOG_PID");
  for (const char* wrong : {"", "30s", "-1", "0", "99999999999999999999"}) {
    manager.environment["WATCHDOG_USEC"] = wrong;
    BOOST_TEST(ServiceManager(manager.lookup()).ping_interval_us() == 0, wrong);
  }
}

BOOST_AUTO_TEST_CASE(a_lane_that_hangs_ends_the_signs_of_life_until_it_goes_on) {
  Manager manager;
  ServiceManager service(manager.lookup());
  Watchdog watchdog(service, 300'000'000);
  ManualClock clock;
  clock.advance_us(1'000'000);
  std::promise<void> done;
  CompletionQueue completions([&done] { done.set_value(); });
  std::promise<void> begun;
  std::promise<void> go;
  Lane lane("lane", completions, clock);

  const auto beat = [&] {
    const LaneStats stats = stats_of(lane);
    watchdog.beat({&stats, 1}, clock.now_us());
    return manager.heard();
  };
  BOOST_TEST(beat() == Lines{"WATCHDOG=1"}, boost::test_tools::per_element());
  lane.post(std::make_unique<HungCall>(begun, go.get_future().share()));
  begun.get_future().wait();
  BOOST_TEST(beat() == Lines{"WATCHDOG=1"}, boost::test_tools::per_element());
  clock.advance_us(299'999'999);
  BOOST_TEST(beat() == Lines{"WATCHDOG=1"}, boost::test_tools::per_element());
  clock.advance_us(1);
  BOOST_TEST(beat() == Lines{"STATUS=device cuda:0 hangs: at one order for 300 s"},
             boost::test_tools::per_element());
  clock.advance_us(15'000'000);
  BOOST_TEST(beat().empty());
  go.set_value();
  done.get_future().wait();
  BOOST_TEST(beat() == Lines{"WATCHDOG=1"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(lost_devices_do_not_count_and_the_limit_can_be_off) {
  Manager manager;
  ServiceManager service(manager.lookup());
  LaneStats stats;
  stats.busy_since_us = 0;
  Watchdog(service, 0).beat({&stats, 1}, 1'000'000'000'000);
  stats.lost = true;
  Watchdog(service, 1).beat({&stats, 1}, 1'000'000'000'000);
  BOOST_TEST(manager.heard() == (Lines{"WATCHDOG=1", "WATCHDOG=1"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_load_that_stands_still_hangs) {
  Manager manager;
  ServiceManager service(manager.lookup());
  Watchdog watchdog(service, 60'000'000);
  watchdog.beat_loading(0, 5'000'000);
  watchdog.beat_loading(0, 64'999'999);
  watchdog.beat_loading(1, 65'000'000);
  watchdog.beat_loading(1, 124'999'999);
  BOOST_TEST(manager.heard().size() == 4);
  watchdog.beat_loading(1, 125'000'000);
  BOOST_TEST(manager.heard() == Lines{"STATUS=the load hangs: at 1 % for 60 s"},
             boost::test_tools::per_element());
  watchdog.beat_loading(2, 126'000'000);
  BOOST_TEST(manager.heard() == Lines{"WATCHDOG=1"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(sockets_of_others_are_not_taken) {
  Manager manager;
  BOOST_TEST(!inherited_socket(manager.lookup())->has_value());
  manager.environment["LISTEN_FDS"] = "1";
  manager.environment["LISTEN_PID"] = std::to_string(getpid() + 1);
  BOOST_TEST(!inherited_socket(manager.lookup())->has_value());
  manager.environment["LISTEN_PID"] = std::to_string(getpid());
  manager.environment["LISTEN_FDS"] = "2";
  BOOST_TEST(!inherited_socket(manager.lookup()).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace hs::test
