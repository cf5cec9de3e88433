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

void add_workload(CLI::App& command, WorkloadOptions& workload) {
  command
      .add_option("--from-log", workload.from_log,
                  "The requests of a request log instead of the flags below")
      ->type_name("FILE");
  command.add_option("--images", workload.images, "Pictures of a request")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  add_picture(command, workload);
  command
      .add_option("--prompt-tokens", workload.prompt_tokens, "Of a request, beside its pictures")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command.add_option("--output-tokens", workload.output_tokens, "Of an answer")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command
      .add_option("--output-spread", workload.output_spread,
                  "Answers are spread over so large a part of that length on either side")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

void add_devices(CLI::App& command, CardsOptions& devices) {
  command.add_option("--consumer", devices.consumer,
                     "Card of the consumer pool [rtx4090], or a device of --profile [its first]");
  command.add_option("--consumers", devices.consumers, "How many of them")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--datacenter", devices.datacenter,
                     "Card of the datacenter pool [a100-80], or a device of --profile [its last]");
  command.add_option("--datacenters", devices.datacenters, "How many of them")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      .add_option(
          "--consumer-tp", devices.consumer_tp,
          "Cards that form one consumer device, tensor-parallel; 0: as few as hold the model")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command.add_option("--datacenter-tp", devices.datacenter_tp, "The same for the datacenter pool")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command.add_option("--max-num-seqs", devices.max_num_seqs, "Sequences in one step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command
      .add_option("--max-num-batched-tokens", devices.max_num_batched_tokens, "Tokens of one step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
}

void add_profile(CLI::App& command, PlanOptions& options) {
  command
      .add_option(
          "--profile", options.profile,
          "Times that heteroserve bench --calibrate measured, instead of the cards' figures")
      ->type_name("FILE");
}

void add_latency(CLI::App& command, LatencyOptions& latency) {
  command.add_option("--ttft-ms", latency.ttft_ms, "Target for the first token")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--tpot-ms", latency.tpot_ms, "Target for each token after it, on average")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_rank(CLI::App& plan, PlanOptions& options) {
  CLI::App* rank = plan.add_subcommand(
      "rank", "The cheapest mix of each arm, at a rate and a latency target or at full load");
  add_model(*rank, options);
  add_workload(*rank, options.workload);
  add_devices(*rank, options.devices);
  add_profile(*rank, options);
  add_latency(*rank, options.latency);
  rank->add_option("--rate", options.simulate.rate, "Requests a second [as many as can be]")
      ->check(CLI::PositiveNumber);
  rank->add_option("--share", options.latency.share, "Of the requests that must meet both targets")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  rank->add_option("--max-devices", options.max_devices, "Most devices, both kinds together")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  rank->add_option("--requests", options.simulate.requests, "How many each try simulates")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  rank->add_option("--seed", options.simulate.seed, "Of arrivals and lengths")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_output(*rank, options);
}

void add_simulate(CLI::App& app, PlanOptions& options) {
  CLI::App* simulate =
      app.add_subcommand("simulate", "Serve requests on modelled devices with the real scheduler");
  SimulateOptions& flags = options.simulate;
  add_model(*simulate, options);
  add_workload(*simulate, options.workload);
  add_devices(*simulate, options.devices);
  add_profile(*simulate, options);
  simulate
      ->add_option("--arm", flags.arms,
                   "datacenter, consumer, stage, two-tiers or stealing; may be repeated [all]")
      ->expected(1)
      ->take_all();
  simulate
      ->add_option("--arrivals", flags.arrivals,
                   "saturated, poisson, bursts, even, or replay (of a log)")
      ->check(CLI::IsMember({"saturated", "poisson", "bursts", "even", "replay"}))
      ->capture_default_str();
  simulate->add_option("--rate", flags.rate, "Requests a second")->check(CLI::PositiveNumber);
  simulate->add_option("--speed", flags.speed, "A replay's times are divided by this")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  simulate->add_option("--requests", flags.requests, "How many requests")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  simulate->add_option("--seed", flags.seed, "Of arrivals and lengths")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_latency(*simulate, options.latency);
  simulate
      ->add_option("--trace", flags.trace,
                   "Write the last orders of each device as a Chrome trace; with one --arm")
      ->type_name("FILE");
  add_output(*simulate, options);
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

  CLI::App* cost =
      plan->add_subcommand("cost", "Throughput and cost of the ways to serve, in closed form");
  add_model(*cost, options);
  add_workload(*cost, options.workload);
  add_devices(*cost, options.devices);
  add_profile(*cost, options);
  cost->add_option("--svg", options.svg, "Plot the cost over the share of vision")
      ->type_name("FILE");
  add_output(*cost, options);

  add_rank(*plan, options);

  CLI::App* cards = plan->add_subcommand("cards", "The cards, prices and efficiencies in use");
  cards->add_flag("--toml", options.toml, "As the file that --cards takes");
  add_output(*cards, options);
  add_simulate(app, options);
}

std::optional<int> run_plan(const CLI::App& app, const PlanOptions& options) {
  const auto given = [&](const char* name) {
    return app.got_subcommand("plan") && app.get_subcommand("plan")->got_subcommand(name);
  };
  if (given("transfer")) return plan_transfer_command(options);
  if (given("cost")) return plan_cost_command(options);
  if (given("rank")) return plan_rank_command(options);
  if (given("cards")) return plan_cards_command(options);
  if (app.got_subcommand("simulate")) return simulate_command(options);
  return {};
}

}  // namespace hs
