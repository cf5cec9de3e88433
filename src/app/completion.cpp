// Completion scripts. Each finds out which command the words before the cursor name, and offers its
// sub-commands, flags, and what a flag's value may be.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string_view>

#include "app/command_tree.h"

namespace hs {
namespace {

constexpr std::string_view kHead =
    "# Completion of heteroserve for {}, as `heteroserve completion {}` prints it.\n";

// "/keys/create"; the program itself is "".
std::string path_of(const CommandInfo& command) {
  std::string path;
  for (const std::string& name : command.path) path += "/" + name;
  return path;
}

// In single quotes, which bash, zsh and fish read alike once backslashes and quotes are out.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += "’";
    else if (c == '\\')
      out += '/';
    else
      out += c == '\n' ? ' ' : c;
  }
  return out + "'";
}

std::vector<std::string> flags_of(const CommandInfo& command) {
  std::vector<std::string> flags;
  for (const OptionInfo& option : command.options)
    if (!option.positional) flags.insert(flags.end(), option.names.begin(), option.names.end());
  return flags;
}

// Words that stand where no flag does: sub-commands, and choices of positionals.
std::vector<std::string> words_of(const CommandInfo& command) {
  std::vector<std::string> words = command.subcommands;
  for (const OptionInfo& option : command.options)
    if (option.positional) words.insert(words.end(), option.choices.begin(), option.choices.end());
  return words;
}

bool positional_file(const CommandInfo& command) {
  for (const OptionInfo& option : command.options)
    if (option.positional && option.takes_file()) return true;
  return false;
}

// Every flag with a value, whichever command has it: the word behind is no sub-command.
std::set<std::string> flags_with_values(const std::vector<CommandInfo>& commands) {
  std::set<std::string> flags;
  for (const CommandInfo& command : commands)
    for (const OptionInfo& option : command.options)
      if (!option.positional && !option.value_name.empty())
        flags.insert(option.names.begin(), option.names.end());
  return flags;
}

std::set<std::string> command_paths(const std::vector<CommandInfo>& commands) {
  std::set<std::string> paths;
  for (const CommandInfo& command : commands)
    if (!command.path.empty()) paths.insert(path_of(command));
  return paths;
}

// bash and zsh: `case` lines that set `offer`, `flags`, `files` for a command, and `value`,
// `offer`, `files` for a flag's value.
std::string command_cases(const std::vector<CommandInfo>& commands) {
  std::string out;
  for (const CommandInfo& command : commands)
    out += fmt::format("    '{}') offer='{}'; flags='{}'; files={} ;;\n", path_of(command),
                       fmt::join(words_of(command), " "), fmt::join(flags_of(command), " "),
                       positional_file(command) ? 1 : 0);
  return out;
}

std::string value_cases(const std::vector<CommandInfo>& commands) {
  std::string out;
  for (const CommandInfo& command : commands) {
    for (const OptionInfo& option : command.options) {
      if (option.positional || option.value_name.empty()) continue;
      for (const std::string& name : option.names)
        out += fmt::format("    '{} {}') value=1; offer='{}'; files={} ;;\n", path_of(command),
                           name, fmt::join(option.choices, " "), option.takes_file() ? 1 : 0);
    }
  }
  return out;
}

// The walk over the words before the cursor; shells differ in how they number them.
std::string walk(const std::vector<CommandInfo>& commands, std::string_view loop) {
  return fmt::format(
      "  local at='' offer='' flags='' files=0 value=0 word='' skip=0 i=0\n"
      "  {}\n"
      "    if [[ $skip == 1 ]]; then skip=0; continue; fi\n"
      "    case \"$word\" in\n"
      "    {}) skip=1; continue ;;\n"
      "    esac\n"
      "    case \"$at/$word\" in\n"
      "    {}) at=\"$at/$word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n{}  esac\n"
      "  case \"$at $previous\" in\n{}  esac\n",
      loop, fmt::join(flags_with_values(commands), "|"), fmt::join(command_paths(commands), "|"),
      command_cases(commands), value_cases(commands));
}

}  // namespace

std::string bash_completion(const std::vector<CommandInfo>& commands) {
  std::string out = fmt::format(kHead, "bash", "bash");
  out +=
      "_heteroserve() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=''\n"
      "  [[ $COMP_CWORD -gt 0 ]] && previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  # --flag=value comes as three words.\n"
      "  if [[ $current == '=' ]]; then current=''\n"
      "  elif [[ $previous == '=' && $COMP_CWORD -gt 1 ]]; then "
      "previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n";
  out += walk(commands,
              "for ((i = 1; i < COMP_CWORD; i++)); do\n    word=${COMP_WORDS[i]}\n    [[ $word == "
              "'=' ]] && { "
              "skip=1; continue; }");
  out +=
      "  COMPREPLY=()\n"
      "  if [[ $value == 0 && $current == -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$current\")\n"
      "    return\n"
      "  fi\n"
      "  [[ -n $offer ]] && mapfile -t COMPREPLY < <(compgen -W \"$offer\" -- \"$current\")\n"
      "  if [[ $files == 1 ]]; then\n"
      "    compopt -o filenames 2>/dev/null\n"
      "    mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$current\")\n"
      "  fi\n"
      "}\n"
      "complete -F _heteroserve heteroserve\n";
  return out;
}

std::string zsh_completion(const std::vector<CommandInfo>& commands) {
  std::string out = "#compdef heteroserve\n" + fmt::format(kHead, "zsh", "zsh");
  out +=
      "_heteroserve() {\n"
      "  local current=${words[CURRENT]} previous=${words[CURRENT-1]}\n"
      "  local -a line=(\"${words[@]}\")\n";
  out += walk(commands, "for ((i = 2; i < CURRENT; i++)); do\n    word=${line[i]}");
  out += "  local -A about=(\n";
  for (const CommandInfo& command : commands)
    for (const OptionInfo& option : command.options)
      if (!option.positional)
        for (const std::string& name : option.names)
          out += fmt::format("    {} {}\n", quoted(path_of(command) + " " + name),
                             quoted(option.description));
  for (const CommandInfo& command : commands)
    if (!command.path.empty())
      out += fmt::format("    {} {}\n", quoted(path_of(command)), quoted(command.description));
  out +=
      "  )\n"
      "  local -a offers\n"
      "  if [[ $value == 0 && $current == -* ]]; then\n"
      "    for word in ${=flags}; do offers+=(\"$word:${about[$at $word]}\"); done\n"
      "    _describe -o option offers\n"
      "    return\n"
      "  fi\n"
      "  for word in ${=offer}; do offers+=(\"$word:${about[$at/$word]}\"); done\n"
      "  (( ${#offers} )) && _describe value offers\n"
      "  [[ $files == 1 ]] && _files\n"
      "}\n"
      "[[ ${funcstack[1]} == _heteroserve ]] && _heteroserve \"$@\"\n";
  return out;
}

std::string fish_completion(const std::vector<CommandInfo>& commands) {
  std::string out = fmt::format(kHead, "fish", "fish");
  out += fmt::format(
      "function __heteroserve_at\n"
      "    set -l path ''\n"
      "    set -l skip 0\n"
      "    for word in (commandline -opc)[2..-1]\n"
      "        if test $skip = 1\n"
      "            set skip 0\n"
      "            continue\n"
      "        end\n"
      "        switch $word\n"
      "            case {}\n"
      "                set skip 1\n"
      "                continue\n"
      "        end\n"
      "        switch $path/$word\n"
      "            case {}\n"
      "                set path $path/$word\n"
      "        end\n"
      "    end\n"
      "    test \"$path\" = \"$argv[1]\"\n"
      "end\n"
      "complete -c heteroserve -f\n",
      fmt::join(flags_with_values(commands), " "), fmt::join(command_paths(commands), " "));
  for (const CommandInfo& command : commands) {
    const std::string at =
        fmt::format("complete -c heteroserve -n \"__heteroserve_at '{}'\"", path_of(command));
    for (const std::string& name : command.subcommands) {
      std::string about;
      for (const CommandInfo& below : commands)
        if (path_of(below) == path_of(command) + "/" + name) about = below.description;
      out += fmt::format("{} -a {} -d {}\n", at, name, quoted(about));
    }
    for (const OptionInfo& option : command.options) {
      if (option.positional) {
        if (!option.choices.empty())
          out += fmt::format("{} -a '{}'\n", at, fmt::join(option.choices, " "));
        if (option.takes_file()) out += at + " -F\n";
        continue;
      }
      std::string names;
      for (const std::string& name : option.names)
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      std::string value;
      if (!option.choices.empty())
        value = fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      else if (option.takes_file())
        value = " -r -F";
      else if (!option.value_name.empty())
        value = " -x";
      out += fmt::format("{}{}{} -d {}\n", at, names, value, quoted(option.description));
    }
  }
  return out;
}

}  // namespace hs
