// Wire cases as data: tests/http_cases/*.md. tests/http_cases/README.md explains the form.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace hs::test {

struct WireStep {
  std::string send;    // the exact bytes
  std::string expect;  // the exact bytes, without Date headers
};

struct WireCase {
  std::string file;
  std::string name;
  std::map<std::string, int64_t> limits;  // by HttpLimits' member names
  std::vector<WireStep> steps;
  bool closed = false;  // whether the server closes after the last step
  bool checks_events = false;
  std::string events;  // the handler's notes
};

// Every case of every file, in order. A malformed file stops the tests.
std::vector<WireCase> read_wire_cases(const std::string& folder);

}  // namespace hs::test
