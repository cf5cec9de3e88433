// The sub-commands. Each returns the exit status; messages go to stderr, results to stdout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/config.h"
#include "base/status.h"

namespace hs {

int serve_command(const LoadedConfig& loaded);

struct RunOptions {
  std::string question;
  std::vector<std::string> images;  // files, before the question
  int32_t max_tokens = 256;
  float temperature = 0.0F;
  uint64_t seed = 0;
};
int run_command(const Config& config, const RunOptions& options);

struct BenchOptions {
  int32_t requests = 32;
  std::optional<int32_t> picture_requests;  // absent: half of the requests, with a model for them
  int32_t images = 1;                       // in each of those
  std::string image_size = "336x336";
  int32_t prompt_tokens = 64;
  int32_t output_tokens = 32;
  int32_t concurrency = 8;
  double rate = 0;  // requests a second; 0: concurrency says how many at once
  uint64_t seed = 1;
  std::string trace;  // file; "" = none
  // Measures the devices instead, for plan and simulate.
  bool calibrate = false;
  std::string out;      // file for the profile; "" = stdout
  double seconds = 60;  // that measuring takes, about
};
int bench_command(const Config& config, const BenchOptions& options);
Status bench_calibrate(const Config& config, const BenchOptions& options);

struct LogsOptions {
  int64_t limit = 20;
  std::string model;  // "" = all
  std::string id;     // X-Request-Id
  std::string key_name;
  bool failed_only = false;
  double last_minutes = 0;  // 0 = since ever
  bool json = false;
  // Goes on with new rows as they are written, until SIGINT or SIGTERM (exit code 0).
  bool follow = false;
};
int logs_command(const Config& config, const LogsOptions& options);

// `heteroserve logs export`: all rows that fit, oldest first.
struct ExportOptions {
  std::string format = "csv";  // or jsonl
  std::string output;          // file; "" = stdout
};
int export_command(const Config& config, const LogsOptions& filter, const ExportOptions& options);

// `heteroserve stats`: tokens a day, percentiles, errors, the slowest.
struct StatsOptions {
  int64_t days = 7;  // today included
  std::string model;
  std::string key_name;
  int64_t slowest = 5;
  bool json = false;
};
int stats_command(const Config& config, const StatsOptions& options);

// `heteroserve doctor`: 0 when nothing is FAIL, 1 otherwise.
struct DoctorFlags {
  bool checksums = false;
  bool json = false;
  bool as_service = false;
};
int doctor_command(const Config& config, const DoctorFlags& flags);

// `heteroserve keys`: makes, lists and revokes API keys, and says what each used.
struct KeysOptions {
  std::string action;  // create, list, revoke, usage
  std::string name;    // of create; of revoke also an id
  bool admin = false;
  int64_t concurrency = 0;
  int64_t per_minute = 0;
  int64_t days = 30;  // of usage
  bool json = false;
};
int keys_command(const Config& config, const KeysOptions& options);

// `heteroserve config show`, `check`, `path`.
struct ConfigOptions {
  std::string action = "show";
  bool json = false;
  bool set_only = false;  // leave out defaults
};
int config_command(const LoadedConfig& loaded, const ConfigOptions& options);
int version_command();

// "heteroserve: message" on stderr.
void print_error(const Error& error);

}  // namespace hs
