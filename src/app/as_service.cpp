#include "app/as_service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace hs {
namespace {

// Of a service that stays, which a look at the machine does not.
constexpr std::string_view kLeftOut[] = {"Type",        "NotifyAccess",    "Exec",    "Restart",
                                         "WatchdogSec", "KillMode",        "Timeout", "PIDFile",
                                         "BusName",     "RemainAfterExit", "Sockets", "OOMPolicy"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

bool is_left_out(std::string_view key) {
  return std::ranges::any_of(kLeftOut,
                             [&](std::string_view prefix) { return key.starts_with(prefix); });
}

std::string unit_text() {
  FILE* pipe =
      ::popen("systemctl cat heteroserve.service 2>/dev/null", "r");  // NOLINT(cert-env33-c)
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 4096> part{};
  for (size_t n = 0;
       text.size() < (1 << 20) && (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    text.append(part.data(), n);
  return ::pclose(pipe) == 0 ? text : std::string();
}

}  // namespace

std::vector<std::string> sandbox_arguments(std::string_view unit) {
  std::vector<std::string> out;
  bool of_service = false;
  std::string continued;
  while (!unit.empty()) {
    const size_t end = std::min(unit.find('\n'), unit.size());
    std::string_view line = trimmed(unit.substr(0, end));
    unit.remove_prefix(std::min(end + 1, unit.size()));
    if (line.starts_with('#') || line.starts_with(';')) continue;
    if (line.ends_with('\\')) {
      line.remove_suffix(1);
      continued += std::string(line) + ' ';
      continue;
    }
    const std::string whole = std::exchange(continued, {}) + std::string(line);
    if (whole.starts_with('[')) of_service = whole == "[Service]";
    const size_t equals = whole.find('=');
    if (!of_service || equals == std::string::npos) continue;
    const std::string key(trimmed(std::string_view(whole).substr(0, equals)));
    if (is_left_out(key)) continue;
    out.emplace_back("-p");
    out.push_back(key + "=" + std::string(trimmed(std::string_view(whole).substr(equals + 1))));
  }
  return out;
}

Status run_as_service(std::span<const std::string> arguments) {
  if (::geteuid() != 0)
    return fail(ErrorKind::kInvalidArgument, "--as-service needs root: use sudo");
  const std::vector<std::string> sandbox = sandbox_arguments(unit_text());
  if (sandbox.empty())
    return fail(ErrorKind::kNotFound,
                "--as-service: there is no unit heteroserve.service here, or no systemd");
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(ErrorKind::kIo, "/proc/self/exe cannot be read: " + error.message());
  std::vector<std::string> command = {"systemd-run", "--quiet", "--pipe", "--wait", "--collect"};
  command.insert(command.end(), sandbox.begin(), sandbox.end());
  command.insert(command.end(), {"--", self.string()});
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  return fail(ErrorKind::kIo, "systemd-run cannot be started: " +
                                  std::error_code(errno, std::generic_category()).message());
}

}  // namespace hs
