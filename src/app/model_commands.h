// The sub-commands of models: pull, import, list, show and rm work on the store; load, unload and
// ps talk to the running server.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/config.h"

namespace CLI {
class App;
}

namespace hs {

struct ModelsOptions {
  std::string model;  // "org/name@revision"; "" where none was named
  std::string from;   // of import: a folder
  std::string name;   // of import: what it is to be called
  bool json = false;
  bool dry_run = false;  // of pull
  bool partial = false;  // of rm: what is not complete, instead of a model
  bool copy = false;     // of import
  bool no_wait = false;  // of load, unload
  std::string key;       // an admin key of the running server
};

// `add_settings` adds the program's settings to a sub-command.
void add_model_commands(CLI::App& app, ModelsOptions& options,
                        const std::function<void(CLI::App&)>& add_settings);
// The exit status, if one of them was given.
std::optional<int> run_model_commands(const CLI::App& app, const Config& config,
                                      const ModelsOptions& options);

// Whether one of those was given that works on the store.
bool is_store_command(const CLI::App& app);

// Each a sub-command; exit codes in app/exit_codes.h.
int pull_command(const Config& config, const ModelsOptions& options);
int import_command(const Config& config, const ModelsOptions& options);
int list_command(const Config& config, const ModelsOptions& options);
int show_command(const Config& config, const ModelsOptions& options);
int rm_command(const Config& config, const ModelsOptions& options);
int load_command(const Config& config, const ModelsOptions& options);
int unload_command(const Config& config, const ModelsOptions& options);
int ps_command(const Config& config, const ModelsOptions& options);

// What an error about models means as an exit status.
int models_exit_code(const Error& error);

}  // namespace hs
