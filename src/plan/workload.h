// The traffic: what requests look like, and when they come.
#pragma once

#include <cstdint>
#include <vector>

namespace hs {

struct RequestShape {
  std::vector<int32_t> image_rows;  // of each picture
  int32_t text_tokens = 0;          // of the prompt, beside the pictures
  int32_t output_tokens = 1;

  int32_t n_prompt() const {
    int32_t n = text_tokens;
    for (const int32_t rows : image_rows) n += rows;
    return n;
  }
};

// Requests that come again and again, in this order.
struct Workload {
  std::vector<RequestShape> requests;  // not empty
  // When each arrived, microseconds, not falling; empty: no times are known.
  std::vector<int64_t> arrivals_us;
};

// One kind of request; its output is spread evenly over (1 - spread, 1 + spread) of output_tokens,
// in a fixed order that is random for whoever batches them. spread: 0 to 1.
Workload uniform_workload(const RequestShape& request, double spread);

}  // namespace hs
