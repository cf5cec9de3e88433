// Proves that the command line's exit statuses are the documented ones, and that the help names
// every setting.
#include <stdlib.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "app/command_line.h"
#include "app/config.h"
#include "app/exit_codes.h"

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
           {{"logs", "--limit", "-1"}, "limit"},
           {{"config", "burn"}, "burn"}}) {
    const Outcome outcome = run(arguments);
    BOOST_TEST(outcome.status == kExitUsage, word);
    BOOST_TEST(contains(outcome.err, word), outcome.err);
  }
}

BOOST_AUTO_TEST_CASE(wrong_settings_and_models_are_78) {
  for (const auto& [arguments, word] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"serve", "x", "--port", "99999"}, "--port"},
           {{"serve", "no/such/folder"}, "no/such/folder"},
           {{"serve"}, "no model"},
           {{"run", "no/such/folder", "hi"}, "no/such/folder"},
           {{"serve", HS_SOURCE_DIR}, "config.json"},
           {{"serve", "x", "--max-body-mib", "1"}, "--max-body-mib"},
           {{"config", "check", "--dtype", "x"}, "--dtype"}}) {
    const Outcome outcome = run(arguments);
    BOOST_TEST(outcome.status == kExitConfig, word);
    BOOST_TEST(contains(outcome.err, word), outcome.err);
  }
}

BOOST_AUTO_TEST_CASE(config_shows_values_with_their_origin) {
  const Outcome shown = run({"config", "--threads", "3"});
  BOOST_TEST(shown.status == kExitOk);
  for (const Setting& setting : settings())
    BOOST_TEST(contains(shown.out, setting.key), setting.key);
  BOOST_TEST(contains(shown.out, "# flag"));
  BOOST_TEST(run({"config", "check"}).status == kExitOk);
}

BOOST_AUTO_TEST_CASE(version_is_the_version_file) {
  std::ifstream file(HS_SOURCE_DIR "/VERSION");
  std::string version;
  std::getline(file, version);
  BOOST_TEST(contains(run({"version"}).out, version));
  BOOST_TEST(run({"--version"}).status == kExitOk);
}

BOOST_AUTO_TEST_CASE(an_absent_log_is_69) {
  BOOST_TEST(run({"logs", "--log-path", "/no/such/requests.db"}).status == kExitUnavailable);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
