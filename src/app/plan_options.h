// The flags of `heteroserve plan` and `heteroserve simulate`, as they were given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  double rate = 0;  // requests a second; 0: as many as are answered
};

struct PlanOptions {
  std::string model;  // a shipped name, a config.json or a folder with one
  std::string cards;  // a file instead of the shipped one
  bool json = false;
  WorkloadOptions workload;

  // transfer
  int32_t context = 2048;
  int32_t lanes = 0;  // 0: 4, 8 and 16
  int32_t value_bytes = 2;
  // cards
  bool toml = false;
};

// Adds the sub-commands. `options` must live until they have run.
void add_plan(CLI::App& app, PlanOptions& options);
// The exit status, when one of them was given.
std::optional<int> run_plan(const CLI::App& app, const PlanOptions& options);

int plan_transfer_command(const PlanOptions& options);
int plan_cards_command(const PlanOptions& options);

}  // namespace hs
