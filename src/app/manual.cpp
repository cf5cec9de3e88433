// The manual pages, in scdoc's language, and the settings file that ships. Flags and keys come from
// where the program itself has them, so neither page can name one that is not there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "app/command_tree.h"
#include "app/config.h"

namespace hs {
namespace {

// Underscores inside words and the few other characters that scdoc takes for marks.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("_*\\`[]#|<>~").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

bool is_setting(const OptionInfo& option) {
  if (option.positional) return false;
  return std::ranges::any_of(
      settings(), [&](const Setting& setting) { return option.names.front() == setting.flag; });
}

std::string option_text(const OptionInfo& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += fmt::format("{}*{}*", names.empty() ? "" : ", ", plain(name));
  if (!option.value_name.empty() && !option.positional)
    names += fmt::format(" _{}_", plain(option.value_name));
  std::string text = plain(option.description);
  if (!option.choices.empty())
    text += fmt::format("{}One of {}.", text.empty() ? "" : ". ",
                        plain(fmt::format("{}", fmt::join(option.choices, ", "))));
  return fmt::format("{}\n\t{}\n\n", names, text.empty() ? "No more is to be said." : text);
}

std::string command_text(const CommandInfo& command) {
  std::string title = fmt::format("heteroserve {}", fmt::join(command.path, " "));
  std::string synopsis = fmt::format("*{}*", title);
  bool takes_settings = false;
  std::string options;
  for (const OptionInfo& option : command.options) {
    takes_settings |= is_setting(option);
    if (option.positional) {
      const std::string name = fmt::format("_{}_", plain(option.names.front()));
      synopsis += option.required ? " " + name : fmt::format(" \\[{}\\]", name);
    }
    if (!is_setting(option) && option.names.front() != "--help") options += option_text(option);
  }
  synopsis += " \\[_options_\\]";
  return fmt::format("## {}\n\n{}\n\n{}.{}\n\n{}", title, synopsis, plain(command.description),
                     takes_settings ? " Takes the flags of *SETTINGS*, too." : "", options);
}

constexpr std::string_view kProgramHead = R"(heteroserve(1)

# NAME

heteroserve - serves vision-language models over an OpenAI-compatible API

# SYNOPSIS

*heteroserve* _command_ \[_options_\]

# DESCRIPTION

One process on one machine serves a vision-language model: the vision tower on cheap cards, prefill and decode on datacenter
cards, or everything on the CPU. *heteroserve serve* is what the service *heteroserve.service* runs; a web page, the API below
/v1, and Prometheus metrics at /metrics are at the address it listens at.

A setting is read from its flag, else its environment variable, else a drop-in of /etc/heteroserve/conf.d, the last name
first, else /etc/heteroserve/heteroserve.toml, else its default: see *heteroserve.toml*(5).

# COMMANDS

)";

constexpr std::string_view kProgramTail = R"(# EXIT STATUS

*0*
	All went well.

*1*
	It failed; trying again may help.

*2*
	The command line is wrong.

*69*
	Something that was asked for is not there.

*78*
	A setting, the model or the request log is wrong. Trying again changes nothing, so the service is not restarted.

# ENVIRONMENT

*HETEROSERVE_CONFIG*
	The settings file to read instead of /etc/heteroserve/heteroserve.toml, as *--config* names one.

*HETEROSERVE_CPU_ISA*
	The most that kernels may use of the processor: avx2, avx512, avx512bf16 or amx.

*HETEROSERVE_DEFAULT_MODEL*
	The model to serve when no setting names one. The service sets it to the demo model that ships.

*NOTIFY_SOCKET*, *WATCHDOG_USEC*, *LISTEN_FDS*
	As *sd_notify*(3), *sd_watchdog_enabled*(3) and *sd_listen_fds*(3) say.

*STATE_DIRECTORY*
	Where the request log and the API keys are. *keys* and *logs* without it mean the service's, /var/lib/heteroserve, where
	they may enter it; root acts there as the service's user.

# FILES

/etc/heteroserve/heteroserve.toml, /etc/heteroserve/conf.d/\*.toml
	Settings.

/etc/default/heteroserve
	Environment of the service.

/var/lib/heteroserve/requests.db, /var/lib/heteroserve/keys.db
	Request log and hashed API keys of the service (SQLite).

# SEE ALSO

*heteroserve.toml*(5), *systemctl*(1), *journalctl*(1)
)";

constexpr std::string_view kSettingsHead = R"(heteroserve.toml(5)

# NAME

heteroserve.toml - settings of heteroserve

# DESCRIPTION

TOML: tables in brackets, a key and its value a line. /etc/heteroserve/heteroserve.toml is read first, then each
/etc/heteroserve/conf.d/\*.toml by name, a later one over an earlier. Environment variables and flags are stronger than both.
An unknown key is an error that names the nearest one. *heteroserve config check* finds what is wrong, *heteroserve config*
shows each value and where it came from, *heteroserve config template* prints a file with every key.

A change counts from the next start: *systemctl restart heteroserve*.

# KEYS

)";

std::string default_of(const Setting& setting) {
  return *setting.default_text == '\0' ? "none" : setting.default_text;
}

std::string setting_text(const Setting& setting, std::string_view head) {
  return fmt::format("{}\n\t{}. Default: {}.\n\n", head, plain(setting.description),
                     plain(default_of(setting)));
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string program_manual(const std::vector<CommandInfo>& commands) {
  std::string out(kProgramHead);
  for (const CommandInfo& command : commands)
    if (!command.path.empty()) out += command_text(command);
  out +=
      "# SETTINGS\n\nFlags of every command that takes settings, with their key and variable.\n\n";
  for (const Setting& setting : settings())
    out += setting_text(
        setting, fmt::format("*{}* _{}_ ({}, {})", plain(setting.flag), plain(setting.value_name),
                             plain(setting.key), plain(setting.environment)));
  return out + std::string(kProgramTail);
}

std::string settings_manual() {
  std::string out(kSettingsHead);
  for (const Setting& setting : settings())
    out += setting_text(setting, fmt::format("*{}* = _{}_ (flag {}, variable {})",
                                             plain(setting.key), plain(setting.value_name),
                                             plain(setting.flag), plain(setting.environment)));
  return out + "# SEE ALSO\n\n*heteroserve*(1)\n";
}

std::string settings_template() {
  std::string out =
      "# Settings of heteroserve: heteroserve.toml(5) explains them. Every key is here at its "
      "default.\n"
      "# Drop-ins of conf.d/*.toml beside this file are stronger, environment and flags stronger "
      "yet.\n"
      "# After a change: heteroserve config check, then systemctl restart heteroserve.\n";
  std::vector<std::string> tables;
  for (const Setting& setting : settings()) {
    const std::string table(
        std::string_view(setting.key).substr(0, std::string_view(setting.key).find('.')));
    if (std::ranges::find(tables, table) == tables.end()) tables.push_back(table);
  }
  for (const std::string& table : tables) {
    out += fmt::format("\n[{}]\n", table);
    for (const Setting& setting : settings()) {
      const std::string_view key = setting.key;
      if (!key.starts_with(table + ".")) continue;
      const bool bare = is_number(setting.default_text);
      out += fmt::format("# {}.\n#{} = {}{}{}\n", setting.description, key.substr(table.size() + 1),
                         bare ? "" : "\"", setting.default_text, bare ? "" : "\"");
    }
  }
  return out;
}

}  // namespace hs
