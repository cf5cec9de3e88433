// Waiting for events instead of sleeping: the loop turns until something is true, or a generous
// deadline passes.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <string_view>

#include "loop/loop.h"
#include "loop/timer.h"

namespace hs::test {

inline constexpr int64_t kWaitMs = 20'000;

// True as soon as the condition holds; false, and a failed test, when it does not within wait_ms.
inline bool run_until(Loop& loop, const std::function<bool()>& condition, std::string_view what,
                      int64_t wait_ms = kWaitMs) {
  bool late = false;
  Timer guard(loop, [&] { late = true; });
  guard.start(wait_ms);
  while (!condition() && !late) loop.run_once(true);
  const bool reached = condition();
  BOOST_CHECK_MESSAGE(reached, what << " did not happen within " << wait_ms << " ms");
  return reached;
}

}  // namespace hs::test
