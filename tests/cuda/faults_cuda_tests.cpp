// Proves that a call of the CUDA runtime that fails, whichever it is of a whole short serve (load,
// a picture encoded, its rows brought to the other card, decode steps), ends as documented: a start
// that says in one line what is wrong, requests that end with an error that says it, or a detour
// with the right answer; nothing hangs, crashes, leaks or answers wrongly.
#include <algorithm>
#include <random>
#include <set>

#include "cuda/serving.h"
#include "cuda/tiny_checkpoint.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;
using cuda_emu::Order;

struct Ended {
  Status start;
  Status request;
  std::string text;
  bool stood_still = false;
};

Ended serve(const std::filesystem::path& model) {
  Ended ended;
  auto serving = Serving::start({.use = Use::kTwoTiers, .model = model, .max_step_tokens = 16});
  if (!serving) {
    ended.start = std::unexpected(serving.error());
    return ended;
  }
  const auto sink = (*serving)->ask(tiny_prompt((*serving)->model(), 5, 0, true), 4);
  ended.stood_still = !(*serving)->run();
  if (sink->error) ended.request = std::unexpected(*sink->error);
  ended.text = sink->choices[0].text;
  return ended;
}

cuda_emu::MachineSpec machine_spec() {
  auto spec = two_cards(7);
  spec.order = Order::kEager;
  return spec;
}

void check_line(const Status& status) {
  BOOST_TEST(!status.error().message.empty());
  BOOST_TEST(status.error().message.find('\n') == std::string::npos);
}

struct Seen {
  int starts = 0;    // that failed
  int requests = 0;  // that failed
  int detours = 0;   // right answers in spite of the fault
  int not_met = 0;   // the serve had fewer calls
  std::set<std::string> functions = {};
};

// The nth call fails: in whatever way the serve ends, it is one of those above.
void check_fault(const std::filesystem::path& model, int nth, cudaError_t error,
                 const std::string& right, Seen& seen) {
  FakeMachine machine(machine_spec());
  machine.fail_call("", nth, error);
  const Ended ended = serve(model);
  BOOST_TEST(!ended.stood_still);
  for (const std::string& report : machine.reports()) BOOST_ERROR(report);
  const std::string failed = machine.failed_call();
  if (failed.empty()) ++seen.not_met;
  seen.functions.insert(failed);
  // What the runtime did not give back is its own, and so is one piece whose device it did not set.
  const bool frees =
      failed.find("Free") != std::string::npos || failed.find("Destroy") != std::string::npos;
  const auto leaks = machine.leaks();
  if (!frees && !(failed == "cudaSetDevice" && leaks.size() == 1)) {
    for (const std::string& leak : leaks) {
      BOOST_ERROR("leaked after " + failed + " failed: " + leak);
    }
  }
  if (!ended.start) {
    ++seen.starts;
    check_line(ended.start);
  } else if (!ended.request) {
    ++seen.requests;
    check_line(ended.request);
    const bool sticky = error == cudaErrorECCUncorrectable;
    if (sticky) BOOST_TEST(ended.request.error().code == "device_lost");
  } else {
    ++seen.detours;
    BOOST_TEST(ended.text == right);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(faults_cuda_tests)

BOOST_AUTO_TEST_CASE(whichever_call_fails_the_serve_ends_as_documented) {
  constexpr uint32_t kSeed = 20261130;
  constexpr size_t kSamples = 60;  // of each kind of error
  const TempDir dir;
  write_tiny_llava(dir.path());
  uint64_t n_calls = 0;
  std::string right;
  {
    FakeMachine machine(machine_spec());
    right = serve(dir.path()).text;
    n_calls = machine.counters().calls;
  }
  BOOST_TEST(!right.empty());
  // Most calls belong to the load: half of the samples are of what comes after them.
  std::mt19937 random(kSeed);
  for (const cudaError_t error : {cudaErrorInvalidValue, cudaErrorECCUncorrectable}) {
    Seen seen;
    for (size_t i = 0; i < kSamples; ++i) {
      const uint64_t first = i % 2 == 0 ? 0 : n_calls * 3 / 4;
      const auto nth = static_cast<int>(first + random() % (n_calls - first) + 1);
      BOOST_TEST_CONTEXT("call " << nth << " of " << n_calls << " fails with "
                                 << cudaGetErrorName(error)) {
        check_fault(dir.path(), nth, error, right, seen);
      }
    }
    BOOST_TEST(seen.starts > 0);
    BOOST_TEST(seen.requests > 0);
    BOOST_TEST_MESSAGE(cudaGetErrorName(error)
                       << ": " << seen.starts << " starts and " << seen.requests
                       << " requests failed, " << seen.detours << " went on, " << seen.not_met
                       << " met no such call; " << seen.functions.size() << " functions failed");
  }
}

BOOST_AUTO_TEST_CASE(memory_that_runs_out_at_any_allocation_is_told_by_the_start) {
  const TempDir dir;
  write_tiny_llava(dir.path());
  uint64_t n_allocations = 0;
  {
    FakeMachine machine(machine_spec());
    BOOST_TEST(serve(dir.path()).start.has_value());
    n_allocations = machine.calls("cudaMalloc");
  }
  for (uint64_t nth = 1; nth <= n_allocations; nth += 3) {
    BOOST_TEST_CONTEXT("allocation " << nth << " of " << n_allocations) {
      FakeMachine machine(machine_spec());
      machine.fail_call("cudaMalloc", static_cast<int>(nth), cudaErrorMemoryAllocation);
      const Ended ended = serve(dir.path());
      BOOST_REQUIRE(!ended.start);
      BOOST_TEST((ended.start.error().kind == ErrorKind::kResourceExhausted));
      BOOST_TEST(ended.start.error().message.find("has no room for") != std::string::npos);
      check_clean(machine);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
