// Completions, manual pages and the settings file name every command, flag and key that the program
// has, each where it belongs.
#include <CLI/CLI.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "app/command_tree.h"
#include "app/config.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

struct SmallProgram {
  SmallProgram() {
    CLI::App* keys = app.add_subcommand("keys", "Make and list keys");
    CLI::App* create = keys->add_subcommand("create", "Make one");
    create->add_option("NAME", name, "Whose it is")->required();
    create->add_flag("--admin,-a", admin, "It's for all");
    create->add_option("--limit", limit, "Most")->check(CLI::PositiveNumber);
    create->add_option("--level", name, "How much")->check(CLI::IsMember({"low", "high"}));
    create->add_option("--file", name, "Where")->type_name("FILE");
    app.add_subcommand("secret", "Not shown")->group("");
    commands = command_tree(app);
  }
  const OptionInfo& option(const std::string& flag) const {
    for (const OptionInfo& info : commands.at(2).options)
      if (info.names.front() == flag) return info;
    BOOST_FAIL(flag);
    throw 0;
  }
  CLI::App app{"Does it", "program"};
  std::string name;
  bool admin = false;
  int limit = 0;
  std::vector<CommandInfo> commands;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(command_tree_tests, SmallProgram)

BOOST_AUTO_TEST_CASE(the_tree_has_commands_options_values_and_choices) {
  BOOST_REQUIRE(commands.size() == 3);
  BOOST_TEST(commands[0].path.empty());
  BOOST_TEST(commands[0].subcommands == std::vector<std::string>{"keys"},
             boost::test_tools::per_element());
  BOOST_TEST(commands[2].path == (std::vector<std::string>{"keys", "create"}),
             boost::test_tools::per_element());
  BOOST_TEST(option("NAME").positional);
  BOOST_TEST(option("NAME").required);
  BOOST_TEST(option("--admin").names == (std::vector<std::string>{"--admin", "-a"}),
             boost::test_tools::per_element());
  BOOST_TEST(option("--admin").value_name == "");
  BOOST_TEST(option("--limit").value_name == "N");
  BOOST_TEST(option("--level").choices == (std::vector<std::string>{"low", "high"}),
             boost::test_tools::per_element());
  BOOST_TEST(option("--file").takes_file());
  BOOST_TEST(!option("--limit").takes_file());
}

BOOST_AUTO_TEST_CASE(each_shell_gets_every_command_and_flag) {
  for (const std::string& script :
       {bash_completion(commands), zsh_completion(commands), fish_completion(commands)}) {
    for (const char* word : {"keys", "create", "low high", "/keys/create"})
      BOOST_TEST(contains(script, word), word << " in\n" << script);
    BOOST_TEST(!contains(script, "secret"));
  }
  for (const char* flag : {"--admin", "--limit", "--level", "--file", "-a"}) {
    BOOST_TEST(contains(bash_completion(commands), flag), flag);
    BOOST_TEST(contains(zsh_completion(commands), flag), flag);
  }
  for (const char* flag :
       {"-l admin -s a", "-l limit -x", "-l level -x -a 'low high'", "-l file -r -F"})
    BOOST_TEST(contains(fish_completion(commands), flag), flag);
}

BOOST_AUTO_TEST_CASE(the_manual_has_every_command_and_setting) {
  const std::string page = program_manual(commands);
  BOOST_TEST(page.starts_with("heteroserve(1)\n"));
  for (const char* part :
       {"## heteroserve keys create", "*--admin*, *-a*", "*--limit* _N_", " _NAME_"})
    BOOST_TEST(contains(page, part), part);
  BOOST_TEST(!contains(page, "secret"));
  for (const Setting& setting : settings()) {
    BOOST_TEST(contains(page, std::string("*") + setting.flag + "*"), setting.flag);
    std::string key = setting.key;
    for (size_t at = 0; (at = key.find('_', at)) != std::string::npos; at += 2)
      key.insert(at, "\\");
    BOOST_TEST(contains(settings_manual(), "*" + key + "*"), key);
  }
}

BOOST_AUTO_TEST_CASE(the_settings_file_changes_nothing_until_a_key_is_uncommented) {
  TempDir folder;
  const std::string text = settings_template();
  ConfigSources sources;
  sources.environment = [](const char*) -> const char* { return nullptr; };
  sources.file = folder.write("heteroserve.toml", text);
  const auto untouched = load_config(sources, {});
  BOOST_REQUIRE_MESSAGE(untouched, untouched.error().message);
  for (const auto& [key, value] : untouched->values) BOOST_TEST(value.origin == "default", key);

  // And with each uncommented: every key is known, and its value is the default.
  std::string all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    if (line.starts_with('#') && !line.starts_with("# ")) line.erase(0, 1);
    all += line + "\n";
    at = end + 1;
  }
  sources.file = folder.write("all.toml", all);
  const auto set = load_config(sources, {});
  BOOST_REQUIRE_MESSAGE(set, set.error().message);
  for (const Setting& setting : settings()) {
    BOOST_TEST(set->values.at(setting.key).origin == sources.file->string(), setting.key);
    if (*setting.default_text != '\0')
      BOOST_TEST(set->values.at(setting.key).value == setting.default_text, setting.key);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace hs::test
