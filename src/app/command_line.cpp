#include "app/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "api/version.h"
#include "app/as_service.h"
#include "app/command_tree.h"
#include "app/commands.h"
#include "app/config.h"
#include "app/environment.h"
#include "app/exit_codes.h"
#include "app/model_commands.h"
#include "app/plan_options.h"
#include "app/service_files.h"
#include "base/log.h"

namespace hs {
namespace {

// What the flags of one run said.
struct Parsed {
  ConfigSources sources;
  std::string file;  // --config
  RunOptions run;
  BenchOptions bench;
  LogsOptions logs;
  ExportOptions log_export;
  StatsOptions stats;
  DoctorFlags doctor;
  ConfigOptions config;
  bool origin = false;  // of config show; it is always told
  KeysOptions keys;
  PlanOptions plan;
  ModelsOptions models;
};

void add_settings(CLI::App& command, Parsed& parsed) {
  command.add_option("--config", parsed.file, "Settings file (TOML); drop-ins beside it in conf.d")
      ->type_name("FILE");
  for (const Setting& setting : settings()) {
    const std::string text = fmt::format("{} [{}] ({}, {})", setting.description,
                                         *setting.default_text == '\0' ? "-" : setting.default_text,
                                         setting.key, setting.environment);
    if (setting.repeats) {
      command
          .add_option_function<std::vector<std::string>>(
              setting.flag,
              [&parsed, &setting](const std::vector<std::string>& values) {
                parsed.sources.flags[setting.flag] = fmt::format("{}", fmt::join(values, ","));
              },
              text)
          ->type_name(setting.value_name)
          ->expected(1)
          ->take_all();
      continue;
    }
    command
        .add_option_function<std::string>(
            setting.flag,
            [&parsed, &setting](const std::string& value) {
              parsed.sources.flags[setting.flag] = value;
            },
            text)
        ->type_name(setting.value_name);
  }
}

void add_model(CLI::App& command, Parsed& parsed) {
  command
      .add_option_function<std::string>(
          "MODEL", [&parsed](const std::string& value) { parsed.sources.flags["--model"] = value; },
          "Checkpoint in Hugging Face layout, or a model of the store")
      ->type_name("MODEL");
}

CLI::App* add_serve(CLI::App& app, Parsed& parsed) {
  CLI::App* serve = app.add_subcommand("serve", "Serve a model over the OpenAI API");
  add_model(*serve, parsed);
  add_settings(*serve, parsed);
  return serve;
}

CLI::App* add_run(CLI::App& app, Parsed& parsed) {
  CLI::App* run = app.add_subcommand("run", "Answer one question, without a server");
  add_model(*run, parsed);
  run->add_option("QUESTION", parsed.run.question, "What to ask")->required();
  run->add_option("--image", parsed.run.images, "A picture to ask about; may be repeated")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  run->add_option("--max-tokens", parsed.run.max_tokens, "Most tokens to answer with")
      ->check(CLI::PositiveNumber);
  run->add_option("--temperature", parsed.run.temperature, "0: the likeliest token each time")
      ->check(CLI::Range(0.0F, 2.0F));
  run->add_option("--seed", parsed.run.seed, "Seed of the sampling")->check(CLI::NonNegativeNumber);
  add_settings(*run, parsed);
  return run;
}

CLI::App* add_bench(CLI::App& app, Parsed& parsed) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure a stated load on the engine, without a server");
  BenchOptions& options = parsed.bench;
  const CLI::Range many(1, 100'000);
  add_model(*bench, parsed);
  bench->add_option("--requests", options.requests, "Requests in all [32]")->check(many);
  bench
      ->add_option("--picture-requests", options.picture_requests,
                   "Of these, requests with pictures [half]")
      ->check(CLI::Range(0, 100'000));
  bench->add_option("--images", options.images, "Pictures in each of those [1]")
      ->check(CLI::Range(0, 1000));
  bench->add_option("--image-size", options.image_size, "Size of a picture, pixels [336x336]")
      ->type_name("WIDTHxHEIGHT");
  bench
      ->add_option("--prompt-tokens", options.prompt_tokens,
                   "Tokens of text in each prompt, about [64]")
      ->check(many);
  bench->add_option("--output-tokens", options.output_tokens, "Tokens of each answer [32]")
      ->check(many);
  bench->add_option("--concurrency", options.concurrency, "Requests under way at once [8]")
      ->check(many);
  bench
      ->add_option("--rate", options.rate,
                   "Requests a second that arrive by chance (Poisson), instead of --concurrency")
      ->check(CLI::Range(1e-3, 1e6));
  bench->add_option("--seed", options.seed, "Seed of prompts, pictures and arrivals [1]")
      ->check(CLI::NonNegativeNumber);
  bench
      ->add_option("--trace", options.trace,
                   "Write each device's last orders as a Chrome trace (ui.perfetto.dev)")
      ->type_name("FILE");
  CLI::Option* calibrate = bench->add_flag(
      "--calibrate", options.calibrate,
      "Measure what steps, pictures and copies take here, for --profile of plan and simulate");
  bench->add_option("--out", options.out, "Write the profile to this file [stdout]")
      ->needs(calibrate)
      ->type_name("FILE");
  bench->add_option("--seconds", options.seconds, "Time to measure for, about [60]")
      ->needs(calibrate)
      ->check(CLI::Range(1.0, 86'400.0));
  add_settings(*bench, parsed);
  return bench;
}

void add_log_filter(CLI::App& command, LogsOptions& filter) {
  command.add_option("--name", filter.model, "Only requests for this model name");
  command.add_option("--key", filter.key_name, "Only requests with this API key");
  command.add_option("--id", filter.id, "Only the request with this X-Request-Id");
  command.add_option("--last", filter.last_minutes, "Only the last so many minutes")
      ->check(CLI::PositiveNumber);
  command.add_flag("--failed", filter.failed_only, "Only requests with status 400 and above");
}

CLI::App* add_logs(CLI::App& app, Parsed& parsed) {
  CLI::App* logs = app.add_subcommand("logs", "List the request log, the newest last");
  logs->add_option("--limit", parsed.logs.limit, "Most rows to list")->check(CLI::PositiveNumber);
  add_log_filter(*logs, parsed.logs);
  logs->add_flag("--follow,-f", parsed.logs.follow,
                 "Then list new requests as they are logged, until Ctrl-C");
  logs->add_flag("--json", parsed.logs.json, "One JSON object a line");
  add_settings(*logs, parsed);

  CLI::App* exported = logs->add_subcommand("export", "Write all rows, the oldest first");
  add_log_filter(*exported, parsed.logs);
  exported->add_option("--format", parsed.log_export.format, "csv or jsonl [csv]")
      ->check(CLI::IsMember({"csv", "jsonl"}));
  exported->add_option("--output,-o", parsed.log_export.output, "Where to [standard output]")
      ->type_name("FILE");
  add_settings(*exported, parsed);
  return logs;
}

CLI::App* add_stats(CLI::App& app, Parsed& parsed) {
  CLI::App* stats = app.add_subcommand(
      "stats", "Tokens by day, key and model; latencies; errors; the slowest requests");
  StatsOptions& options = parsed.stats;
  stats->add_option("--days", options.days, "The last so many days, today included [7]")
      ->check(CLI::Range(1, 100'000));
  stats->add_option("--name", options.model, "Only requests for this model name");
  stats->add_option("--key", options.key_name, "Only requests with this API key");
  stats->add_option("--slowest", options.slowest, "So many of the slowest requests [5]")
      ->check(CLI::Range(0, 1000));
  stats->add_flag("--json", options.json, "As JSON");
  add_settings(*stats, parsed);
  return stats;
}

CLI::App* add_doctor(CLI::App& app, Parsed& parsed) {
  CLI::App* doctor = app.add_subcommand(
      "doctor", "Look at what serving needs, and say what to do where it is not good");
  doctor->add_flag("--checksums", parsed.doctor.checksums,
                   "Compare the model's files with its manifest; reads all of them");
  doctor->add_flag("--json", parsed.doctor.json, "As JSON");
  doctor->add_flag("--as-service", parsed.doctor.as_service,
                   "As the installed service sees it: its user, environment and sandbox (root)");
  add_model(*doctor, parsed);
  add_settings(*doctor, parsed);
  return doctor;
}

CLI::App* add_config(CLI::App& app, Parsed& parsed) {
  CLI::App* config = app.add_subcommand("config", "Show or check the settings");
  config
      ->add_option(
          "ACTION", parsed.config.action,
          "show; check; path: the files that were read; or template: a settings file with every "
          "key, commented out [show]")
      ->check(CLI::IsMember({"show", "check", "path", "template"}));
  config->add_flag("--json", parsed.config.json, "As JSON");
  config->add_flag("--set", parsed.config.set_only, "Leave out what is at its default");
  config->add_flag("--origin", parsed.origin,
                   "Say where each value comes from, which it always does");
  add_settings(*config, parsed);
  return config;
}

void add_keys_create(CLI::App& keys, Parsed& parsed) {
  CLI::App* create = keys.add_subcommand("create", "Make a key and print it, once");
  create->add_option("NAME", parsed.keys.name, "Whose it is: letters and digits")->required();
  create->add_flag("--admin", parsed.keys.admin,
                   "Also for the request log, settings, metrics, traces and cancelling");
  create
      ->add_option("--concurrency", parsed.keys.concurrency, "Most requests at a time; 0: no limit")
      ->check(CLI::Range(0, 1'000'000));
  create->add_option("--per-minute", parsed.keys.per_minute, "Most requests a minute; 0: no limit")
      ->check(CLI::Range(0, 1'000'000));
}

CLI::App* add_keys(CLI::App& app, Parsed& parsed) {
  CLI::App* keys = app.add_subcommand("keys", "Make, list and revoke API keys");
  add_keys_create(*keys, parsed);
  keys->add_subcommand("list", "List the keys; none can be shown again");
  CLI::App* revoke =
      keys->add_subcommand("revoke", "End a key; running servers know within seconds");
  revoke->add_option("KEY", parsed.keys.name, "Its name or number")->required();
  CLI::App* usage = keys->add_subcommand("usage", "Requests and tokens by key and model");
  usage->add_option("--days", parsed.keys.days, "The last so many days, today included")
      ->check(CLI::Range(1, 100'000));
  for (CLI::App* action : keys->get_subcommands({})) {
    action->add_flag("--json", parsed.keys.json, "One JSON object a line");
    add_settings(*action, parsed);
  }
  keys->require_subcommand(1);
  return keys;
}

// What the program says of itself: for shells and for the package.
struct SelfOptions {
  std::string shell;
  std::string page;
};

void add_self(CLI::App& app, SelfOptions& options) {
  app.add_subcommand("completion", "Print the completion script of a shell")
      ->add_option("SHELL", options.shell, "Which")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.add_subcommand("version", "Print the version");
  app.add_subcommand("manual", "Print a manual page in scdoc's language")
      ->group("")
      ->add_option("PAGE", options.page, "1 or 5")
      ->required()
      ->check(CLI::IsMember({"1", "5"}));
}

// The exit status, when one of them was given that needs no settings.
std::optional<int> run_self(const CLI::App& app, const SelfOptions& options,
                            const ConfigOptions& config) {
  if (app.got_subcommand("version")) return version_command();
  if (app.got_subcommand("config") && config.action == "template") {
    fmt::print("{}", settings_template());
    return kExitOk;
  }
  if (app.got_subcommand("manual")) {
    fmt::print("{}", options.page == "1" ? program_manual(command_tree(app)) : settings_manual());
    return kExitOk;
  }
  if (!app.got_subcommand("completion")) return std::nullopt;
  const auto script = options.shell == "bash"  ? bash_completion
                      : options.shell == "zsh" ? zsh_completion
                                               : fish_completion;
  fmt::print("{}", script(command_tree(app)));
  return kExitOk;
}

int usage_error(const std::string& message) {
  fmt::print(stderr, "heteroserve: {} (--help shows what there is)\n", message);
  return kExitUsage;
}

}  // namespace

int run_program(std::span<const std::string> arguments, std::span<const char* const> environment) {
  Parsed parsed;
  CLI::App app("Serves vision-language models over an OpenAI-compatible API.", "heteroserve");
  app.set_version_flag("--version", fmt::format("heteroserve {}", version()));
  const CLI::App* serve = add_serve(app, parsed);
  const CLI::App* run = add_run(app, parsed);
  const CLI::App* bench = add_bench(app, parsed);
  const CLI::App* logs = add_logs(app, parsed);
  const CLI::App* keys = add_keys(app, parsed);
  const CLI::App* stats = add_stats(app, parsed);
  const CLI::App* doctor = add_doctor(app, parsed);
  add_config(app, parsed);
  SelfOptions self;
  add_self(app, self);
  add_plan(app, parsed.plan);
  add_model_commands(app, parsed.models, [&](CLI::App& command) { add_settings(command, parsed); });

  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }
  if (const auto told = run_self(app, self, parsed.config)) return *told;
  if (const auto planned = run_plan(app, parsed.plan)) return *planned;
  if (app.get_subcommands().empty())
    return usage_error(
        "name a sub-command: serve, run, bench, pull, import, list, show, rm, load, unload, ps, "
        "logs, "
        "stats, keys, plan, simulate, doctor, config, completion or version");

  if (doctor->parsed() && parsed.doctor.as_service) {
    std::vector<std::string> inside(arguments.begin(), arguments.end());
    std::erase(inside, "--as-service");
    print_error(run_as_service(inside).error());
    return kExitFailure;
  }
  parsed.sources.environment = process_environment;
  if (!parsed.file.empty()) parsed.sources.file = parsed.file;
  const bool of_store = is_store_command(app);
  const bool reads_log = logs->parsed() || stats->parsed();
  if (reads_log || keys->parsed() || doctor->parsed() || of_store || app.got_subcommand("config"))
    parsed.sources.service_state = service_state();
  const auto loaded = load_config(parsed.sources, environment);
  if (!loaded) {
    print_error(loaded.error());
    return kExitConfig;
  }
  set_log_level(loaded->config.log_level);
  if (reads_log || keys->parsed() || of_store) {
    const char* path = reads_log ? "log.path" : of_store ? "model.store" : "auth.keys_path";
    // What a setting names elsewhere is this user's own affair.
    const bool of_service =
        !parsed.sources.service_state.empty() &&
        loaded->values.at(path).value.starts_with(parsed.sources.service_state + "/");
    if (const Status owner = act_as_owner(of_service ? parsed.sources.service_state : ""); !owner) {
      print_error(owner.error());
      return kExitFailure;
    }
  }
  if (serve->parsed()) return serve_command(*loaded);
  if (const auto done = run_model_commands(app, loaded->config, parsed.models)) return *done;
  if (run->parsed()) return run_command(loaded->config, parsed.run);
  if (bench->parsed()) return bench_command(loaded->config, parsed.bench);
  if (logs->parsed() && !logs->get_subcommands().empty())
    return export_command(loaded->config, parsed.logs, parsed.log_export);
  if (logs->parsed()) return logs_command(loaded->config, parsed.logs);
  if (stats->parsed()) return stats_command(loaded->config, parsed.stats);
  if (doctor->parsed()) return doctor_command(loaded->config, parsed.doctor);
  if (keys->parsed()) {
    parsed.keys.action = keys->get_subcommands().front()->get_name();
    return keys_command(loaded->config, parsed.keys);
  }
  return config_command(*loaded, parsed.config);
}

}  // namespace hs
