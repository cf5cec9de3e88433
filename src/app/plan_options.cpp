#include "app/plan_options.h"

#include <CLI/CLI.hpp>

namespace hs {
namespace {

void add_model(CLI::App& command, PlanOptions& options) {
  command.add_option("--model", options.model,
                     "A shipped shape (llava-1.5-7b, ...), a config.json or a folder with one");
}

void add_output(CLI::App& command, PlanOptions& options) {
  command
      .add_option("--cards", options.cards, "Cards and prices (TOML) instead of the shipped ones")
      ->type_name("FILE");
  command.add_flag("--json", options.json, "One JSON object instead of tables");
}

void add_picture(CLI::App& command, WorkloadOptions& workload) {
  command.add_option("--image-size", workload.image_size, "Size of a picture, pixels")
      ->type_name("WIDTHxHEIGHT");
  command
      .add_option("--image-tokens", workload.image_tokens,
                  "Tokens of a picture, instead of what its size gives")
      ->check(CLI::Range(1, 1 << 20));
}

}  // namespace

void add_plan(CLI::App& app, PlanOptions& options) {
  CLI::App* plan = app.add_subcommand("plan", "Reckon what cuts, cards and mixes are worth");
  plan->require_subcommand(1);
  CLI::App* transfer =
      plan->add_subcommand("transfer", "Bytes that each cut of a request moves, and how long");
  add_model(*transfer, options);
  add_picture(*transfer, options.workload);
  transfer->add_option("--context", options.context, "Tokens of a sequence, pictures included")
      ->check(CLI::Range(1, 1 << 26));
  transfer->add_option("--lanes", options.lanes, "PCIe lanes [4, 8 and 16]")
      ->check(CLI::Range(1, 16));
  transfer->add_option("--value-bytes", options.value_bytes, "Bytes of a number that is moved")
      ->check(CLI::Range(1, 8));
  add_output(*transfer, options);

  CLI::App* cards = plan->add_subcommand("cards", "The cards, prices and efficiencies in use");
  cards->add_flag("--toml", options.toml, "As the file that --cards takes");
  add_output(*cards, options);
}

std::optional<int> run_plan(const CLI::App& app, const PlanOptions& options) {
  const auto given = [&](const char* name) {
    return app.got_subcommand("plan") && app.get_subcommand("plan")->got_subcommand(name);
  };
  if (given("transfer")) return plan_transfer_command(options);
  if (given("cards")) return plan_cards_command(options);
  return {};
}

}  // namespace hs
