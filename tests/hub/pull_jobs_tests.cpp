// Pulls in the background: they run one after the other, tell how far they are, and can be ended.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "hub/pull_jobs.h"
#include "hub/stub_hub.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs {
namespace {

using Phase = PullJobState::Phase;

// Opened once; whoever passes before waits.
class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

struct Fixture {
  test::TempDir dir;
  ModelStore store{dir.path() / "models"};
  SystemClock clock;

  static PullJobState ended(const PullJobs& jobs, const std::string& id) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < deadline) {
      for (const PullJobState& state : jobs.list())
        if (state.id == id && state.finished()) return state;
      std::this_thread::yield();
    }
    BOOST_FAIL("the job did not end");
    return {};
  }
};

BOOST_FIXTURE_TEST_SUITE(pull_jobs_tests, Fixture)

BOOST_AUTO_TEST_CASE(a_job_brings_the_model_and_is_remembered) {
  test::StubHub hub;
  PullJobs jobs(store, hub.endpoint(), clock);
  const auto job = jobs.start({"org", "tiny", ""});
  BOOST_REQUIRE_MESSAGE(job, test::message_of(job));
  const PullJobState state = ended(jobs, job->id);
  BOOST_TEST((state.phase == Phase::kDone), (state.error ? state.error->message : ""));
  BOOST_TEST(state.progress.bytes_done == state.progress.bytes_total);
  BOOST_TEST(state.progress.bytes_total > 100'000);
  BOOST_TEST(state.finished_ms >= state.created_ms);
  BOOST_TEST(store.find("org/tiny").has_value());
}

BOOST_AUTO_TEST_CASE(a_job_that_fails_says_why) {
  test::StubHub hub;
  PullJobs jobs(store, hub.endpoint(), clock);
  const auto job = jobs.start({"org", "other", "v1"});
  BOOST_REQUIRE(job);
  BOOST_TEST(job->model == "org/other@v1");
  const PullJobState state = ended(jobs, job->id);
  BOOST_TEST((state.phase == Phase::kFailed));
  BOOST_REQUIRE(state.error);
  BOOST_TEST(state.error->code == "not_found");
}

BOOST_AUTO_TEST_CASE(running_and_waiting_jobs_can_be_cancelled) {
  Gate gate;
  std::atomic<bool> reached = false;
  test::StubHub hub([&](const std::string& head) -> std::string {
    if (head.find("model.safetensors ") == head.npos) return {};
    reached = true;
    gate.pass();
    return {};
  });
  PullJobs jobs(store, hub.endpoint(), clock);
  const auto first = jobs.start({"org", "tiny", ""});
  const auto second = jobs.start({"org", "later", ""});
  BOOST_REQUIRE((first && second));
  const auto again = jobs.start({"org", "tiny", ""});
  BOOST_TEST(!again);
  BOOST_REQUIRE(jobs.cancel(second->id));
  BOOST_TEST((ended(jobs, second->id).phase == Phase::kCancelled));
  while (!reached) std::this_thread::yield();
  BOOST_REQUIRE(jobs.cancel(first->id));
  gate.open();
  BOOST_TEST((ended(jobs, first->id).phase == Phase::kCancelled));
  BOOST_TEST(store.list()->empty());
  BOOST_TEST(!jobs.cancel("pull-99"));
  BOOST_TEST(jobs.list().front().id == second->id);
}

BOOST_AUTO_TEST_CASE(the_end_of_the_program_ends_what_runs) {
  Gate gate;
  test::StubHub hub([&](const std::string& head) -> std::string {
    if (head.find("model.safetensors ") == head.npos) return {};
    gate.pass();
    return {};
  });
  {
    PullJobs jobs(store, hub.endpoint(), clock);
    BOOST_REQUIRE(jobs.start({"org", "tiny", ""}));
  }
  gate.open();
  BOOST_TEST(store.list()->empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
