#include "plan/arrivals.h"

#include <cmath>

#include "base/check.h"

namespace hs {

Arrivals::Arrivals(const Workload& workload, const SimOptions& options)
    : workload_(workload),
      process_(options.arrivals),
      gap_us_(1e6 / options.rate),
      speed_(options.speed),
      open_(options.arrivals != ArrivalProcess::kSaturated),
      in_order_(options.in_order || options.arrivals == ArrivalProcess::kReplay),
      n_left_(options.n_requests),
      random_(options.seed) {
  HS_CHECK(!workload.requests.empty());
  if (process_ == ArrivalProcess::kReplay) {
    HS_CHECK_EQ(workload.arrivals_us.size(), workload.requests.size());
    n_left_ = static_cast<int64_t>(workload.requests.size());
  }
  if (open_) advance();
}

// REQUIRES: n_left_ > 0.
void Arrivals::advance() {
  constexpr int64_t kBurst = 8;
  switch (process_) {
    case ArrivalProcess::kSaturated:
      return;
    case ArrivalProcess::kPoisson:
      next_us_ += -std::log1p(-random_.uniform()) * gap_us_;
      return;
    case ArrivalProcess::kBursts:
      if (n_taken_ % kBurst == 0) {
        next_us_ += -std::log1p(-random_.uniform()) * gap_us_ * kBurst;
      }
      return;
    case ArrivalProcess::kEven:
      next_us_ += gap_us_;
      return;
    case ArrivalProcess::kReplay: {
      const auto& times = workload_.arrivals_us;
      next_us_ = static_cast<double>(times[static_cast<size_t>(n_taken_)] - times.front()) / speed_;
      return;
    }
  }
}

const RequestShape& Arrivals::take() {
  HS_CHECK_GT(n_left_, 0);
  const size_t n = workload_.requests.size();
  const size_t index = in_order_ ? static_cast<size_t>(n_taken_) % n : random_.below(n);
  --n_left_;
  ++n_taken_;
  if (open_ && n_left_ > 0) advance();
  return workload_.requests[index];
}

}  // namespace hs
