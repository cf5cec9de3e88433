#include "plan/workload.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace hs {

Workload uniform_workload(const RequestShape& request, double spread) {
  HS_CHECK(spread >= 0 && spread <= 1);
  Workload workload;
  // A prime number of lengths, visited in steps that share no factor with it: every length once,
  // neighbours far apart, and the mean exact.
  constexpr int32_t kLengths = 101;
  constexpr int32_t kStride = 39;
  const int32_t n = spread > 0 ? kLengths : 1;
  for (int32_t i = 0; i < n; ++i) {
    const double at = n == 1 ? 0 : 2.0 * (i * kStride % kLengths) / (kLengths - 1) - 1;
    RequestShape one = request;
    one.output_tokens =
        std::max(1, static_cast<int32_t>(std::lround(request.output_tokens * (1 + spread * at))));
    workload.requests.push_back(std::move(one));
  }
  return workload;
}

}  // namespace hs
