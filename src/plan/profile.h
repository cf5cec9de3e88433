// What devices of a machine were measured to take: `heteroserve bench --calibrate` writes such a
// profile, plan and simulate read it (--profile) and reckon with its times instead of a roofline.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/model_shape.h"

namespace hs {

// Of the same work, done several times.
struct MeasuredTime {
  double us = 0;       // median
  double low_us = 0;   // 10th percentile
  double high_us = 0;  // 90th
};

// A step of n_seqs sequences, each n_tokens behind n_before that are in the cache.
struct MeasuredStep {
  int32_t n_seqs = 1;
  int32_t n_tokens = 1;
  int32_t n_before = 0;
  bool sampled = false;  // the next token of each
  MeasuredTime time = {};
};

// An encode order of n_pictures pictures, n_rows rows of the language model each.
struct MeasuredEncode {
  int32_t n_pictures = 1;
  int32_t n_rows = 0;
  int32_t n_patches = 0;  // of each, as the tower gets it
  MeasuredTime time = {};
};

// A copy between two devices; rows are image rows, or tokens of keys and values.
struct MeasuredCopy {
  int64_t n_rows = 0;
  int64_t bytes = 0;
  MeasuredTime time = {};
};

// From the end of a step of n_seqs sequences to the start of the next one: tokens become text,
// the scheduler orders, threads wake up.
struct MeasuredPause {
  int32_t n_seqs = 1;
  MeasuredTime time = {};
};

struct ProfiledDevice {
  std::string name;       // "cpu:0"
  int64_t kv_tokens = 0;  // of its cache when it was measured
  std::vector<MeasuredStep> steps;
  std::vector<MeasuredEncode> encodes;  // empty: no tower
  std::vector<MeasuredPause> pauses;
};

struct Profile {
  std::string file;  // as it is called in messages
  std::string date;  // ISO 8601, UTC
  std::string machine;
  std::string model;
  std::string dtype;
  // Of the model, so that a profile is not taken for another one's.
  int32_t n_layers = 0;
  int32_t dim = 0;
  int32_t kv_width = 0;  // of one layer's keys
  // What everything takes while all devices work, as a multiple of the times here.
  double crowding = 1;
  std::vector<ProfiledDevice> devices;
  std::vector<MeasuredCopy> embeddings;  // between any two of the devices; empty with one
  std::vector<MeasuredCopy> keys_values;

  // kNotFound: names those that are there.
  Result<const ProfiledDevice*> device(std::string_view name) const;
  // kInvalidArgument "--profile": it was measured with another model.
  Status check_model(const ModelShape& shape) const;
};

std::string profile_toml(const Profile& profile);
// Errors name file, line and field.
Result<Profile> read_profile(std::string_view toml, std::string_view file);

}  // namespace hs
