// How far a download is, on stderr: one line that is drawn again on a terminal, a line now and then
// elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace hs {

class ProgressBar {
 public:
  ProgressBar(const Clock& clock, bool on_terminal) : clock_(clock), on_terminal_(on_terminal) {}
  // Ends the line that was begun.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::string_view label, int64_t done, int64_t total);

 private:
  std::string text(std::string_view label, int64_t done, int64_t total);

  const Clock& clock_;
  bool on_terminal_;
  int64_t shown_us_ = 0;  // 0 = never
  int64_t begin_us_ = 0;  // of the measurement of speed
  int64_t begin_done_ = 0;
  bool line_open_ = false;
};

// "1.5 GB", in powers of 1000.
std::string size_text(int64_t bytes);
// "2 min 05 s"
std::string duration_text(int64_t seconds);

}  // namespace hs
