// Sub-commands and their flags as data: what completions and the manual are made from.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hs {

struct OptionInfo {
  std::vector<std::string> names;  // "--limit", "-f"; of a positional "MODEL"
  std::string description;
  std::string value_name;            // "N"; "" = a switch
  std::vector<std::string> choices;  // the values, where these are few
  bool positional = false;
  bool required = false;
  bool takes_file() const;
};

struct CommandInfo {
  std::vector<std::string> path;  // {"keys", "create"}; the program itself: {}
  std::string description;
  std::vector<OptionInfo> options;
  std::vector<std::string> subcommands;  // names of those right below
};

// The program and all its commands, each after the one that it belongs to. Hidden ones are left
// out.
std::vector<CommandInfo> command_tree(const CLI::App& app);

// Scripts for the shells' completion, from that.
std::string bash_completion(const std::vector<CommandInfo>& commands);
std::string zsh_completion(const std::vector<CommandInfo>& commands);
std::string fish_completion(const std::vector<CommandInfo>& commands);

// Manual pages in scdoc's language: heteroserve(1) and heteroserve.toml(5).
std::string program_manual(const std::vector<CommandInfo>& commands);
std::string settings_manual();

// A settings file with every key at its default, each commented out.
std::string settings_template();

}  // namespace hs
