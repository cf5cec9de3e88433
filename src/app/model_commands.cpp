#include "app/model_commands.h"

#include <CLI/CLI.hpp>
#include <string_view>

#include "app/exit_codes.h"

namespace hs {
namespace {

using Run = int (*)(const Config&, const ModelsOptions&);

struct Command {
  const char* name;
  const char* help;
  Run run;
};

constexpr Command kCommands[] = {
    {"pull", "Fetch a model from Hugging Face into the store", pull_command},
    {"import", "Take a checkpoint's folder or a cached model into the store", import_command},
    {"list", "List the models of the store", list_command},
    {"show", "Show a model of the store, file by file", show_command},
    {"rm", "Remove a model from the store", rm_command},
    {"load", "Have the running server load a model instead of its own", load_command},
    {"unload", "Have the running server unload its model", unload_command},
    {"ps", "Show what the running server has loaded", ps_command},
};

CLI::App& add(CLI::App& app, ModelsOptions& options, const Command& command) {
  CLI::App& sub = *app.add_subcommand(command.name, command.help);
  sub.add_flag("--json", options.json, "JSON instead of text");
  return sub;
}

void add_name(CLI::App& sub, ModelsOptions& options, const char* help, bool required) {
  sub.add_option("MODEL", options.model, help)->required(required)->type_name("ORG/NAME[@REV]");
}

void add_remote(CLI::App& sub, ModelsOptions& options) {
  sub.add_option("--key", options.key,
                 "Admin key of the server, where it asks for keys [HETEROSERVE_ADMIN_KEY]");
}

}  // namespace

void add_model_commands(CLI::App& app, ModelsOptions& options,
                        const std::function<void(CLI::App&)>& add_settings) {
  for (const Command& command : kCommands) {
    CLI::App& sub = add(app, options, command);
    const std::string_view name = command.name;
    if (name == "list") sub.alias("ls");
    if (name == "pull") {
      add_name(sub, options, "Which, as on Hugging Face; @ and a branch, tag or commit [main]",
               true);
      sub.add_flag("--dry-run", options.dry_run,
                   "Only say what would be fetched, and whether it fits");
    }
    if (name == "import") {
      sub.add_option("FROM", options.from, "A checkpoint's folder, or a Hugging Face cache")
          ->required()
          ->type_name("DIR");
      sub.add_option("--name", options.name,
                     "What to call it [as in the cache; local/ and the folder's]")
          ->type_name("ORG/NAME");
      sub.add_flag("--copy", options.copy, "Bytes of its own instead of hard links");
    }
    if (name == "show") add_name(sub, options, "Which", true);
    if (name == "rm") {
      add_name(sub, options, "Which", false);
      sub.add_flag("--partial", options.partial, "What interrupted pulls left, of MODEL or of all");
    }
    if (name == "load") add_name(sub, options, "Which", true);
    if (name == "load" || name == "unload")
      sub.add_flag("--no-wait", options.no_wait, "Do not wait until it is done");
    if (name == "load" || name == "unload" || name == "ps") add_remote(sub, options);
    add_settings(sub);
  }
}

std::optional<int> run_model_commands(const CLI::App& app, const Config& config,
                                      const ModelsOptions& options) {
  for (const Command& command : kCommands)
    if (app.got_subcommand(command.name)) return command.run(config, options);
  return {};
}

bool is_store_command(const CLI::App& app) {
  for (const char* name : {"pull", "import", "list", "show", "rm"})
    if (app.got_subcommand(name)) return true;
  return false;
}

int models_exit_code(const Error& error) {
  if (error.code == "no_space") return kExitNoSpace;
  if (error.code == "auth") return kExitNoAccess;
  if (error.code == "checksum" || error.code == "bad_listing") return kExitBadData;
  if (error.kind == ErrorKind::kNotFound) return kExitNotFound;
  if (error.kind == ErrorKind::kUnavailable) return kExitUnavailable;
  if (error.code == "invalid_model_name") return kExitUsage;
  return kExitFailure;
}

}  // namespace hs
