// The flags of `heteroserve plan` and `heteroserve simulate`, as they were given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hs {

// What a request of the traffic looks like, and how requests arrive.
struct WorkloadOptions {
  std::string from_log;  // a request log; takes the place of all others here
  int32_t images = 1;
  std::string image_size = "896x896";  // WIDTHxHEIGHT
  int32_t image_tokens = 0;            // of each picture; 0: from its size
  int32_t prompt_tokens = 32;          // beside the pictures
  int32_t output_tokens = 128;
  double output_spread = 0.5;  // lengths are spread over (1 - this, 1 + this) of that
};

// Which cards, and how they serve.
struct CardsOptions {
  // Cards, or devices of the profile; "": rtx4090 and a100-80, or the profile's first and last.
  std::string consumer;
  std::string datacenter;
  int32_t consumers = 2;  // devices
  int32_t datacenters = 2;
  int32_t consumer_tp = 1;  // cards of a device, tensor-parallel; 0: as few as hold the model
  int32_t datacenter_tp = 0;
  int32_t max_num_seqs = 64;
  int32_t max_num_batched_tokens = 2048;
};

struct LatencyOptions {
  double ttft_ms = 2000;
  double tpot_ms = 50;
  double share = 0.9;  // of the requests that meet both
};

struct SimulateOptions {
  std::vector<std::string> arms;  // empty: all
  std::string arrivals = "saturated";
  double rate = 0;   // requests a second
  double speed = 1;  // of a replay
  int64_t requests = 2000;
  uint64_t seed = 1;
  std::string trace;  // a file for the Chrome trace
};

struct PlanOptions {
  std::string model;    // a shipped name, a config.json or a folder with one
  std::string cards;    // a file instead of the shipped one
  std::string profile;  // a file of measured times; "" = none
  bool json = false;
  WorkloadOptions workload;

  // transfer
  int32_t context = 2048;
  int32_t lanes = 0;  // 0: 4, 8 and 16
  int32_t value_bytes = 2;
  // cards
  bool toml = false;
  // cost, simulate
  CardsOptions devices;
  LatencyOptions latency;
  SimulateOptions simulate;
  std::string svg;  // a file for the plot
  // rank
  int32_t max_devices = 8;
};

// Adds the sub-commands. `options` must live until they have run.
void add_plan(CLI::App& app, PlanOptions& options);
// The exit status, when one of them was given.
std::optional<int> run_plan(const CLI::App& app, const PlanOptions& options);

int plan_transfer_command(const PlanOptions& options);
int plan_cards_command(const PlanOptions& options);
int plan_cost_command(const PlanOptions& options);
int plan_rank_command(const PlanOptions& options);
int simulate_command(const PlanOptions& options);

}  // namespace hs
