#include "app/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>

#include "api/json_writer.h"
#include "app/commands.h"
#include "app/doctor_checks.h"
#include "app/exit_codes.h"

namespace hs {
namespace {

void append_member(std::string& out, std::string_view key, std::string_view text) {
  append_json_string(out, key);
  out += ':';
  if (text.empty())
    out += "null";
  else
    append_json_string(out, text);
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

}  // namespace

std::string_view to_string(Health health) {
  switch (health) {
    case Health::kOk:
      return "OK";
    case Health::kWarn:
      return "WARN";
    case Health::kFail:
      break;
  }
  return "FAIL";
}

std::string redacted(std::string text) {
  constexpr size_t kSecretBytesMin = 12;  // shorter ones are words
  for (const std::string_view prefix : {"hs-", "hf_", "sk-"}) {
    size_t at = 0;
    while ((at = text.find(prefix, at)) != std::string::npos) {
      size_t end = at + prefix.size();
      while (end < text.size() && is_word(text[end])) ++end;
      const bool begins = at == 0 || !is_word(text[at - 1]);
      if (begins && end - at - prefix.size() >= kSecretBytesMin)
        text.replace(at + prefix.size(), end - at - prefix.size(), "...");
      at += prefix.size();
    }
  }
  return text;
}

std::vector<Finding> examine(const Config& config, const DoctorOptions& options) {
  Findings found;
  // Whatever the system throws (no memory, no thread, a name that is no UTF-8) is a finding as
  // well.
  const auto part = [&](const char* area, const auto& check) {
    try {
      check();
    } catch (const std::exception& e) {
      found.push_back(
          {area, Health::kFail, fmt::format("could not be looked at: {}", e.what()), ""});
    }
  };
  part("system", [&] { check_system(found); });
  part("cpu", [&] { check_cpu(config, found); });
  part("memory", [&] { check_memory(found); });
  part("gpu", [&] { check_nvidia({}, found); });
  Result<Gpus> gpus;
  part("gpu", [&] { gpus = find_gpus(config.device); });
  part("gpu", [&] { check_backend(config, gpus, found); });
  part("settings", [&] { check_settings(config, found); });
  part("model", [&] { check_model(config, options.checksums, found); });
  part("links", [&] { check_links(config, gpus, found); });
  part("disk", [&] { check_disk(config, found); });
  part("port", [&] { check_port(config, options.serving, found); });
  part("keys", [&] { check_keys(config, found); });
  part("log", [&] { check_log(config, found); });
  part("energy", [&] { check_energy(found); });
  part("service", [&] { check_service(found); });
  for (Finding& finding : found) {
    finding.text = redacted(std::move(finding.text));
    finding.fix = redacted(std::move(finding.fix));
  }
  return found;
}

Health worst_of(const std::vector<Finding>& findings) {
  Health worst = Health::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.health);
  return worst;
}

std::string doctor_text(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    out += fmt::format("{:<4}  {:<8}  {}\n", to_string(finding.health), finding.area,
                       to_valid_utf8(finding.text));
    if (!finding.fix.empty()) out += fmt::format("{:16}fix: {}\n", "", to_valid_utf8(finding.fix));
  }
  const auto count = [&](Health health) {
    return std::ranges::count(findings, health, &Finding::health);
  };
  return out + fmt::format("{} OK, {} WARN, {} FAIL\n", count(Health::kOk), count(Health::kWarn),
                           count(Health::kFail));
}

std::string doctor_json(const std::vector<Finding>& findings) {
  std::string out = "{";
  append_member(out, "status", to_string(worst_of(findings)));
  out += ",\"findings\":[";
  for (const Finding& finding : findings) {
    if (out.back() == '}') out += ',';
    out += '{';
    append_member(out, "area", finding.area);
    out += ',';
    append_member(out, "status", to_string(finding.health));
    out += ',';
    append_member(out, "text", finding.text);
    out += ',';
    append_member(out, "fix", finding.fix);
    out += '}';
  }
  return out + "]}";
}

int doctor_command(const Config& config, const DoctorFlags& flags) {
  const auto findings = examine(config, {.serving = false, .checksums = flags.checksums});
  if (flags.json)
    fmt::print("{}\n", doctor_json(findings));
  else
    fmt::print("{}", doctor_text(findings));
  return worst_of(findings) == Health::kFail ? kExitFailure : kExitOk;
}

}  // namespace hs
