#include "plan/measured_times.h"

#include <algorithm>

namespace hs {
namespace {

double pairs_of(double n_before, double n_tokens) {
  return n_tokens * n_before + n_tokens * (n_tokens + 1) / 2;
}

}  // namespace

void Curve::add(double x, double y) {
  const auto it = std::ranges::lower_bound(points_, x, {}, &Point::x);
  if (it != points_.end() && it->x == x) {
    it->y = y;
  } else {
    points_.insert(it, {x, y});
  }
}

double Curve::at(double x) const {
  if (points_.empty()) return 0;
  if (points_.size() == 1 || x <= points_.front().x) return points_.front().y;
  auto right = std::ranges::lower_bound(points_, x, {}, &Point::x);
  if (right == points_.end()) --right;
  const auto left = right - 1;
  const double slope = (right->y - left->y) / (right->x - left->x);
  // Noise in the last two points must not make what is larger take less.
  if (x > right->x) return right->y + std::max(slope, 0.0) * (x - right->x);
  return left->y + slope * (x - left->x);
}

MeasuredTimes::MeasuredTimes(const Profile& profile, const ProfiledDevice& device)
    : kv_tokens_(device.kv_tokens), crowding_(profile.crowding) {
  read_steps(device);
  std::vector<MeasuredEncode> encodes = device.encodes;
  std::ranges::sort(encodes, {}, &MeasuredEncode::n_pictures);
  for (const MeasuredEncode& one : encodes) {
    if (one.n_pictures == 1) {
      picture_.add(one.n_rows, one.time.us);
    } else if (!picture_.empty()) {
      many_pictures_.add(one.n_pictures, one.time.us / (one.n_pictures * picture_.at(one.n_rows)));
    }
  }
  if (!picture_.empty()) many_pictures_.add(1, 1);
  for (const MeasuredPause& one : device.pauses) pause_.add(one.n_seqs, one.time.us);
  const auto add_copies = [](const std::vector<MeasuredCopy>& copies, Curve& curve,
                             double& row_bytes) {
    for (const MeasuredCopy& one : copies) {
      curve.add(static_cast<double>(one.n_rows), one.time.us);
      row_bytes = static_cast<double>(one.bytes) / static_cast<double>(one.n_rows);
    }
  };
  add_copies(profile.embeddings, embedding_, embedding_row_bytes_);
  add_copies(profile.keys_values, kv_, kv_row_bytes_);
}

// The parts of a step come from differences between steps that differ in one thing.
void MeasuredTimes::read_steps(const ProfiledDevice& device) {
  Curve prompts;  // without tokens before them
  for (const MeasuredStep& one : device.steps) {
    if (!one.sampled && one.n_before == 0 && one.n_seqs == 1)
      prompts.add(one.n_tokens, one.time.us);
  }
  double more_pairs = 0;
  double more_us = 0;
  for (const MeasuredStep& one : device.steps) {
    if (one.sampled || one.n_before == 0 || one.n_seqs > 1) continue;
    more_pairs += pairs_of(one.n_before, one.n_tokens) - pairs_of(0, one.n_tokens);
    more_us += one.time.us - prompts.at(one.n_tokens);
  }
  if (more_pairs > 0) pair_us_ = std::max(more_us / more_pairs, 0.0);
  for (const MeasuredStep& one : device.steps) {
    if (one.sampled || one.n_before > 0 || one.n_seqs > 1) continue;
    tokens_.add(one.n_tokens, std::max(one.time.us - pair_us_ * pairs_of(0, one.n_tokens), 0.0));
  }
  // Decoding: of the most sequences, where noise counts least, what a longer context adds; what is
  // left of a step with the shortest context, the layers taken away, is sampling.
  int32_t most = 0;
  int32_t shortest = INT32_MAX;
  for (const MeasuredStep& one : device.steps) {
    if (!one.sampled || one.n_tokens != 1) continue;
    most = std::max(most, one.n_seqs);
    shortest = std::min(shortest, one.n_before);
  }
  double base_us = 0;
  for (const MeasuredStep& one : device.steps) {
    if (one.sampled && one.n_tokens == 1 && one.n_seqs == most && one.n_before == shortest) {
      base_us = one.time.us;
    }
  }
  decode_.add(shortest + 1, 0);
  for (const MeasuredStep& one : device.steps) {
    if (!one.sampled || one.n_tokens != 1 || one.n_seqs != most || one.n_before == shortest) {
      continue;
    }
    decode_.add(one.n_before + 1, std::max((one.time.us - base_us) / most, 0.0));
  }
  for (const MeasuredStep& one : device.steps) {
    if (!one.sampled || one.n_tokens != 1 || one.n_before != shortest) continue;
    sampled_.add(one.n_seqs, std::max(one.time.us - tokens_.at(one.n_seqs), 0.0));
  }
}

double MeasuredTimes::attention_us(const StepPart& part) const {
  if (part.count == 1 && part.first > 0) return decode_.at(part.first + 1);
  return pair_us_ * pairs_of(part.first, part.count);
}

double MeasuredTimes::encode_us(std::span<const int32_t> rows) const {
  double us = 0;
  for (const int32_t n : rows) us += picture_.at(n);
  return us * many_pictures_.at(static_cast<double>(rows.size()));
}

}  // namespace hs
