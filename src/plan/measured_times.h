// Times between the points of a profile: how long any step, encode order or copy takes on a device
// that was measured.
//
// A step is its tokens through the layers, a curve of their number; attention, for prompts by pairs
// of a query and a key, for decoding sequences a curve of the context; and the output matrix with
// sampling, a curve of the sampled tokens. Between points all curves are straight, beyond the last
// they go on as before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/device_model.h"
#include "plan/profile.h"

namespace hs {

// Through points, x ascending.
class Curve {
 public:
  void add(double x, double y);  // of points with the same x the last one counts
  bool empty() const { return points_.empty(); }
  // 0 without points; before the first point its y.
  double at(double x) const;

 private:
  struct Point {
    double x = 0;
    double y = 0;
  };
  std::vector<Point> points_;
};

class MeasuredTimes {
 public:
  MeasuredTimes(const Profile& profile, const ProfiledDevice& device);

  int64_t kv_tokens() const { return kv_tokens_; }
  bool has_tower() const { return !picture_.empty(); }
  double crowding() const { return crowding_; }
  // Layers and sampling, without attention.
  double tokens_us(double n_tokens, double n_sampled) const {
    return tokens_.at(n_tokens) + (n_sampled > 0 ? sampled_.at(n_sampled) : 0);
  }
  double attention_us(const StepPart& part) const;
  double encode_us(std::span<const int32_t> rows) const;
  double pause_us(double n_seqs) const { return pause_.at(n_seqs); }
  // REQUIRES: the profile has copies, that is two devices.
  double embedding_copy_us(double n_rows) const { return embedding_.at(n_rows); }
  double kv_copy_us(double n_rows) const { return kv_.at(n_rows); }
  bool has_copies() const { return !embedding_.empty() || !kv_.empty(); }
  // Bytes of one row; 0 when no copy was measured.
  double embedding_row_bytes() const { return embedding_row_bytes_; }
  double kv_row_bytes() const { return kv_row_bytes_; }

 private:
  void read_steps(const ProfiledDevice& device);

  int64_t kv_tokens_ = 0;
  double crowding_ = 1;
  double pair_us_ = 0;  // of a prompt's attention
  double embedding_row_bytes_ = 0;
  double kv_row_bytes_ = 0;
  Curve tokens_;
  Curve decode_;  // attention of one decoding sequence, by its context
  Curve sampled_;
  Curve picture_;        // of one picture alone, by its rows
  Curve many_pictures_;  // what that is multiplied with in an order of so many
  Curve pause_;
  Curve embedding_;
  Curve kv_;
};

}  // namespace hs
