// The last orders of a lane, for people who want to see what ran when. The loop thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/lane.h"
#include "engine/sequence.h"

namespace hs {

struct TimelineEntry {
  WorkOrder::Kind kind = WorkOrder::Kind::kStep;
  int64_t started_us = 0;  // on the engine's clock
  int64_t finished_us = 0;
  int32_t unit = 0;        // that the work is for
  RequestId request = 0;   // the first of those concerned
  int32_t n_requests = 0;  // pictures, or sequences of a step
  int32_t n_rows = 0;      // image rows, KV rows, or tokens of a step
  int32_t n_sampled = 0;   // of a step
  int64_t bytes = 0;       // copied
  bool stolen = false;     // language work on a thief
  bool failed = false;
};

class Timeline {
 public:
  static constexpr size_t kEntries = 4096;
  void add(const TimelineEntry& entry) {
    if (entries_.size() < kEntries) {
      entries_.push_back(entry);
    } else {
      entries_[next_] = entry;
    }
    next_ = (next_ + 1) % kEntries;
  }
  // Oldest first.
  std::vector<TimelineEntry> entries() const {
    std::vector<TimelineEntry> result;
    result.reserve(entries_.size());
    const size_t first = entries_.size() < kEntries ? 0 : next_;
    for (size_t i = 0; i < entries_.size(); ++i) {
      result.push_back(entries_[(first + i) % entries_.size()]);
    }
    return result;
  }

 private:
  std::vector<TimelineEntry> entries_;
  size_t next_ = 0;
};

// What one lane did.
struct LaneTimeline {
  std::string lane;  // "cpu:0"
  std::vector<TimelineEntry> entries;
};

}  // namespace hs
