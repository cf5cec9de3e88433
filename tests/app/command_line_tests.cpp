// Proves that the command line's exit statuses are the documented ones, and that the help names
// every setting.
#include <stdlib.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/command_line.h"
#include "app/config.h"
#include "app/exit_codes.h"
#include "support/source_dir.h"

namespace hs {
namespace {

// Redirects one of the standard streams into a file for the fixture's life.
class Capture {
 public:
  Capture(FILE* stream, int descriptor) : stream_(stream), descriptor_(descriptor) {
    std::fflush(stream_);
    std::string pattern = "/tmp/hs_capture_XXXXXX";
    const int file = mkstemp(pattern.data());
    path_ = pattern;
    saved_ = dup(descriptor_);
    dup2(file, descriptor_);
    close(file);
  }
  ~Capture() {
    restore();
    unlink(path_.c_str());
  }
  std::string text() {
    restore();
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  void restore() {
    std::fflush(stream_);
    if (saved_ < 0) return;
    dup2(saved_, descriptor_);
    close(saved_);
    saved_ = -1;
  }

  FILE* stream_;
  int descriptor_;
  int saved_ = -1;
  std::string path_;
};

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

Outcome run(const std::vector<std::string>& arguments) {
  Capture out(stdout, STDOUT_FILENO);
  Capture err(stderr, STDERR_FILENO);
  const int status = run_program(arguments, {});
  std::string out_text = out.text();
  return {status, std::move(out_text), err.text()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(command_line_tests)

BOOST_AUTO_TEST_CASE(help_names_every_setting_with_its_key_and_variable) {
  const Outcome help = run({"serve", "--help"});
  BOOST_TEST(help.status == kExitOk);
  for (const Setting& setting : settings()) {
    BOOST_TEST(contains(help.out, setting.flag), setting.flag);
    BOOST_TEST(contains(help.out, setting.key), setting.key);
    BOOST_TEST(contains(help.out, setting.environment), setting.environment);
  }
}

BOOST_AUTO_TEST_CASE(wrong_command_lines_are_2_with_the_word_at_fault) {
  for (const auto& [arguments, word] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"frobnicate"}, "frobnicate"},
           {{"serve", "x", "--no-such-flag"}, "no-such-flag"},
           {{}, "serve"},
           {{"run", "x"}, "QUESTION"},
           {{"run", "x", "hi", "--seed", "-3"}, "-3"},
           {{"bench", "x", "--seed", "-1"}, "-1"},
           {{"simulate", "--seed", "-1"}, "-1"},
           {{"logs", "--limit", "-1"}, "limit"},
           {{"config", "burn"}, "burn"},
           {{"completion"}, "SHELL"},
           {{"completion", "tcsh"}, "tcsh"}}) {
    const Outcome outcome = run(arguments);
    BOOST_TEST(outcome.status == kExitUsage, word);
    BOOST_TEST(contains(outcome.err, word), outcome.err);
  }
}

BOOST_AUTO_TEST_CASE(wrong_settings_and_models_are_78) {
  const std::string demo = source_dir() + "/models/demo/llava";
  for (const auto& [arguments, word] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"serve", "x", "--port", "99999"}, "--port"},
           {{"serve", "no/such/folder"}, "no/such/folder"},
           {{"run", "", "hi"}, "no model"},
           {{"run", "no/such/folder", "hi"}, "no/such/folder"},
           {{"serve", source_dir()}, "config.json"},
           {{"serve", "x", "--max-body-mib", "1"}, "--max-body-mib"},
           {{"serve", demo, "--kv-blocks", "2"}, "--kv-blocks"},
           {{"run", demo, "hi", "--kv-blocks", "2"}, "--kv-blocks"},
           {{"run", demo, "hi", "--kv-blocks", "99999999"}, "--kv-blocks"},
           {{"bench", demo, "--kv-blocks", "2"}, "--kv-blocks"},
           {{"run", demo, "hi", "--consumer", "cuda:7", "--datacenter", "cpu:0"}, "cuda:7"},
           {{"config", "check", "--dtype", "x"}, "--dtype"}}) {
    const Outcome outcome = run(arguments);
    BOOST_TEST(outcome.status == kExitConfig, word);
    BOOST_TEST(contains(outcome.err, word), outcome.err);
    BOOST_TEST(!contains(outcome.err, "listening"), outcome.err);
  }
}

BOOST_AUTO_TEST_CASE(config_shows_values_with_their_origin) {
  const Outcome shown = run({"config", "--threads", "3"});
  BOOST_TEST(shown.status == kExitOk);
  for (const Setting& setting : settings())
    BOOST_TEST(contains(shown.out, setting.key), setting.key);
  BOOST_TEST(contains(shown.out, "# flag"));
  const Outcome checked = run({"config", "check", "--cut", "pre"});
  BOOST_TEST(checked.status == kExitOk);
  BOOST_TEST(contains(checked.err, "--cut pre has no effect"), checked.err);
  BOOST_TEST(run({"config", "check"}).err == "");
}

BOOST_AUTO_TEST_CASE(version_is_the_version_file) {
  std::ifstream file(source_dir() + "/VERSION");
  std::string version;
  std::getline(file, version);
  BOOST_TEST(contains(run({"version"}).out, version));
  BOOST_TEST(run({"--version"}).status == kExitOk);
}

BOOST_AUTO_TEST_CASE(completions_and_manual_pages_are_printed) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = run({"completion", shell});
    BOOST_TEST(outcome.status == kExitOk);
    for (const char* word : {"serve", "hang-timeout", "tensor-parallel", "revoke", "transfer"})
      BOOST_TEST(contains(outcome.out, word), word);
  }
  // The manual has what the help has: each flag of each command.
  const std::string page = run({"manual", "1"}).out;
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"run"}, {"bench"}, {"logs"}, {"keys", "create"}, {"plan", "cost"}, {"simulate"}}) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    const std::string help = run(arguments).out;
    size_t n_flags = 0;
    for (size_t at = 0; (at = help.find("\n  --", at)) != std::string::npos; ++n_flags) {
      at += 3;
      const std::string flag = help.substr(at, help.find_first_of(" ,\n", at) - at);
      BOOST_TEST(contains(page, "*" + flag + "*"), flag);
    }
    BOOST_TEST(n_flags > 3, command.front());
  }
  BOOST_TEST(contains(run({"manual", "5"}).out, "hang\\_timeout"));
  BOOST_TEST(contains(run({"config", "template"}).out, "#port = 8080\n"));
}

BOOST_AUTO_TEST_CASE(an_absent_log_is_69) {
  BOOST_TEST(run({"logs", "--log-path", "/no/such/requests.db"}).status == kExitUnavailable);
}

BOOST_AUTO_TEST_CASE(plan_and_simulate_name_the_flag_at_fault_in_one_line) {
  const std::string llama = source_dir() + "/tests/app/no_vision.json";
  for (const auto& [arguments, word] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"plan", "transfer", "--model", "gpt"}, "--model"},
           {{"plan", "transfer", "--model", "qwen2.5-vl-7b", "--image-size", "big"},
            "--image-size"},
           {{"plan", "transfer", "--model", "qwen2.5-vl-7b", "--image-size", "1x9999"},
            "--image-size"},
           {{"plan", "transfer", "--model", llama}, "vision_config"},
           {{"plan", "transfer", "--model", "llava-1.5-7b", "--context", "500"}, "--context"},
           {{"plan", "cost"}, "--model"},
           {{"plan", "cost", "--model", "llava-1.5-7b", "--consumer", "rtx9"}, "--consumer"},
           {{"plan", "rank", "--model", "llava-1.5-7b", "--datacenter", "b9"}, "--datacenter"},
           {{"simulate", "--model", "llava-1.5-7b", "--arm", "magic"}, "--arm"},
           {{"simulate", "--model", "llava-1.5-7b", "--arrivals", "poisson"}, "--rate"},
           {{"simulate", "--model", "llava-1.5-7b", "--arrivals", "replay"}, "--arrivals"},
           {{"simulate", "--model", "llava-1.5-7b", "--trace", "/tmp/x"}, "--trace"},
           {{"simulate", "--model", "qwen2.5-vl-72b", "--arm", "consumer"}, "memory_gb"}}) {
    const Outcome outcome = run(arguments);
    BOOST_TEST(outcome.status == kExitConfig, word);
    BOOST_TEST(contains(outcome.err, word), outcome.err);
    BOOST_TEST(outcome.err.find('\n') == outcome.err.size() - 1, outcome.err);
  }
  BOOST_TEST(run({"plan", "cost", "--model", "llava-1.5-7b", "--cards", "/no/such.toml"}).status ==
             kExitUnavailable);
  BOOST_TEST(run({"plan", "cost", "--model", "llava-1.5-7b", "--from-log", "/no/log.db"}).status ==
             kExitUnavailable);
  BOOST_TEST(run({"plan"}).status == kExitUsage);
  BOOST_TEST(run({"simulate", "--requests", "0"}).status == kExitUsage);
}

BOOST_AUTO_TEST_CASE(plans_are_valid_json_whose_numbers_name_their_kind) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"plan", "transfer", "--json"},
           {"plan", "transfer", "--model", "qwen2.5-vl-7b", "--json"},
           {"plan", "cards", "--json"},
           {"plan", "cost", "--model", "qwen2.5-vl-32b", "--json"},
           {"plan", "rank", "--model", "llava-1.5-7b", "--json"},
           {"simulate", "--model", "llava-1.5-7b", "--requests", "50", "--json"}}) {
    const Outcome outcome = run(arguments);
    BOOST_TEST(outcome.status == kExitOk, outcome.err);
    const auto json = nlohmann::json::parse(outcome.out);
    size_t n_kinds = 0;
    for (const auto& table : json.at("tables")) {
      for (const auto& row : table.at("rows")) {
        for (const auto& cell : row) {
          if (!cell.is_object()) continue;
          BOOST_TEST(cell.contains("value"));
          n_kinds += cell.contains("kind") ? 1 : 0;
        }
      }
    }
    BOOST_TEST(n_kinds > 3U, arguments.front());
  }
}

BOOST_AUTO_TEST_CASE(the_card_list_can_be_edited_and_given_back) {
  const Outcome list = run({"plan", "cards", "--toml"});
  BOOST_TEST(list.status == kExitOk);
  std::string pattern = "/tmp/hs_cards_XXXXXX";
  close(mkstemp(pattern.data()));
  std::ofstream(pattern) << list.out;
  BOOST_TEST(run({"plan", "cards", "--cards", pattern}).out == run({"plan", "cards"}).out);
  std::ofstream(pattern, std::ios::app) << "\n[cards.toy]\nprice_usd = -1\n";
  const Outcome refused = run({"plan", "cards", "--cards", pattern});
  BOOST_TEST(refused.status == kExitConfig);
  BOOST_TEST(contains(refused.err, "cards.toy."), refused.err);
  unlink(pattern.c_str());
}

BOOST_AUTO_TEST_CASE(a_trace_and_a_plot_are_written_where_asked) {
  std::string pattern = "/tmp/hs_plan_XXXXXX";
  close(mkstemp(pattern.data()));
  BOOST_TEST(run({"simulate", "--model", "llava-1.5-7b", "--arm", "stealing", "--requests", "30",
                  "--trace", pattern})
                 .status == kExitOk);
  std::ifstream trace(pattern);
  const auto json = nlohmann::json::parse(trace);
  BOOST_TEST(json.at("traceEvents").size() > 30U);
  BOOST_TEST(run({"plan", "cost", "--model", "qwen2.5-vl-7b", "--svg", pattern}).status == kExitOk);
  std::ifstream plot(pattern);
  std::string first;
  std::getline(plot, first);
  BOOST_TEST(first.starts_with("<svg "));
  unlink(pattern.c_str());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
