// `heteroserve doctor` and /admin/doctor: looks at everything outside the program that serving
// needs, and says for each thing whether it is good, and what to do where it is not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"

namespace hs {

enum class Health { kOk, kWarn, kFail };
std::string_view to_string(Health health);  // "OK", "WARN", "FAIL"

struct Finding {
  std::string area;  // "system", "model", "log", ...
  Health health = Health::kOk;
  std::string text;  // what was found
  std::string fix;   // what to do; empty when there is nothing to
};

struct DoctorOptions {
  // Asked by the server itself: its port is taken by it, and its devices are at work.
  bool serving = false;
  bool checksums = false;  // of the model's files, where a manifest tells them; reads all of them
};

// Takes a second or two: it starts the devices, copies between them, and asks systemd. Any thread;
// never throws. Changes nothing on the machine.
std::vector<Finding> examine(const Config& config, const DoctorOptions& options);

Health worst_of(const std::vector<Finding>& findings);
// One line each, the fix below; ends with a summary.
std::string doctor_text(const std::vector<Finding>& findings);
// {"status":"WARN","findings":[{"area","status","text","fix"}]}; fix is null where there is none.
std::string doctor_json(const std::vector<Finding>& findings);

// Whatever looks like an API key or token, replaced.
std::string redacted(std::string text);

}  // namespace hs
