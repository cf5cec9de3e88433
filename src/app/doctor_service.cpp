// What doctor looks at of the installation: settings, model, disk, port, keys, request log, unit.
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "app/doctor_checks.h"
#include "app/model_source.h"
#include "app/served_engine.h"
#include "hub/digest.h"
#include "hub/manifest.h"
#include "store/api_keys.h"
#include "store/migrations.h"
#include "store/stats.h"

namespace hs {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLogCheckBytesMax = int64_t{256} << 20;
constexpr size_t kManifestBytesMax = size_t{4} << 20;
constexpr double kDiskShareMin = 0.05;
constexpr double kDiskBytesMin = 256 << 20;

std::string error_text(int number) {
  return std::error_code(number, std::generic_category()).message();
}

// ---- model

// "" where it cannot be read.
std::string sha256_of(const fs::path& path) {
  Digest digest = Digest::sha256();
  const Status read = hash_file(path, [&](std::string_view bytes) {
    digest.update(bytes);
    return true;
  });
  return read ? digest.finish() : std::string();
}

// "" where the file is what the manifest says.
std::string fault_of(const fs::path& folder, const StoredFile& file, bool checksums) {
  std::error_code error;
  const auto bytes = fs::file_size(folder / file.path, error);
  if (error) return fmt::format("{}: {}", file.path, error.message());
  if (bytes != static_cast<uintmax_t>(file.bytes))
    return fmt::format("{} has {} bytes instead of {}", file.path, bytes, file.bytes);
  if (checksums && sha256_of(folder / file.path) != file.sha256)
    return fmt::format("{} is damaged: its SHA-256 differs", file.path);
  return {};
}

// What a pull or an import left beside the weights.
void check_manifest(const fs::path& folder, bool checksums, Findings& out) {
  const fs::path path = folder / kManifestName;
  std::error_code error;
  if (!fs::exists(path, error)) return;
  const std::string fix = "fetch or import the model again";
  std::string text;
  if (fs::file_size(path, error) <= kManifestBytesMax) {
    std::ifstream file(path, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto manifest = parse_manifest(text, path.string());
  if (!manifest) {
    out.push_back({"model", Health::kWarn, manifest.error().message, fix});
    return;
  }
  const size_t n_before = out.size();
  for (const StoredFile& file : manifest->files)
    if (const std::string fault = fault_of(folder, file, checksums); !fault.empty())
      out.push_back({"model", Health::kFail, fault, fix});
  if (out.size() > n_before) return;
  out.push_back({"model", Health::kOk,
                 fmt::format("{} files as in {} ({})", manifest->files.size(), kManifestName,
                             checksums ? "sizes and SHA-256" : "sizes; --checksums reads them"),
                 ""});
}

std::string unreadable_fix(const fs::path& folder) {
  if (folder.string().starts_with("/home") || folder.string().starts_with("/root"))
    return "the service cannot see home directories (ProtectHome=yes): keep models elsewhere";
  return fmt::format(
      "let the user read it (`setfacl -R -m u:heteroserve:rX {}`), each folder above "
      "included",
      folder.string());
}

// ---- disk

void check_space(const char* what, const fs::path& place, Findings& out) {
  fs::path folder = fs::absolute(place);
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  struct statvfs disk{};
  if (::statvfs(folder.c_str(), &disk) != 0) {
    out.push_back({"disk", Health::kWarn,
                   fmt::format("{} at {}: {}", what, folder.string(), error_text(errno)), ""});
    return;
  }
  const auto block = static_cast<double>(disk.f_frsize);
  const double free = static_cast<double>(disk.f_bavail) * block;
  const double all = std::max(static_cast<double>(disk.f_blocks) * block, 1.0);
  const bool full = free < kDiskBytesMin;
  const bool tight = free < kDiskShareMin * all;
  out.push_back({"disk",
                 full    ? Health::kFail
                 : tight ? Health::kWarn
                         : Health::kOk,
                 fmt::format("{} at {}: {} free of {}", what, folder.string(), size_text(free),
                             size_text(all)),
                 full || tight
                     ? "make room, or keep the request log shorter (--log-retention-days, "
                       "--log-retention-mib)"
                     : ""});
}

// ---- port

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

bool answers_as_heteroserve(const addrinfo& address) {
  const Socket client(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (::connect(client.get(), address.ai_addr, address.ai_addrlen) != 0) return false;
  constexpr std::string_view kAsk =
      "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (::send(client.get(), kAsk.data(), kAsk.size(), MSG_NOSIGNAL) < 0) return false;
  std::string answer;
  std::array<char, 512> part{};
  for (ssize_t n = 0;
       answer.size() < 4096 && (n = ::recv(client.get(), part.data(), part.size(), 0)) > 0;)
    answer.append(part.data(), static_cast<size_t>(n));
  return answer.find("\"alive\"") != std::string::npos;
}

Finding look_at_port(const Config& config, const addrinfo& address) {
  const std::string name = fmt::format("{} port {}", config.host, config.port);
  {
    const Socket server(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(server.get(), address.ai_addr, address.ai_addrlen) == 0)
      return {"port", Health::kOk, name + " is free", ""};
  }
  const int why = errno;
  if (why == EADDRINUSE && answers_as_heteroserve(address))
    return {"port", Health::kOk, name + ": a HeteroServe answers there", ""};
  return {"port", Health::kFail, fmt::format("{}: {}", name, error_text(why)),
          why == EADDRINUSE ? "find out who listens (`ss -ltnp`), or choose another --port"
                            : "choose another --host or --port"};
}

// ---- service

// What a program says, at most some KiB; "" where it fails. `command` is our own text.
std::string said_by(const char* command) {
  FILE* pipe = ::popen(command, "r");  // NOLINT(cert-env33-c): no outside text in it
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 512> part{};
  while (text.size() < 16'384 && std::fgets(part.data(), part.size(), pipe) != nullptr)
    text += part.data();
  return ::pclose(pipe) == 0 ? text : std::string();
}

std::string value_of(const std::string& text, const std::string& name) {
  const size_t at = text.starts_with(name + "=") ? 0 : text.find("\n" + name + "=");
  if (at == std::string::npos) return {};
  const size_t begin = text.find('=', at) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

void check_settings(const Config& config, Findings& out) {
  const size_t before = out.size();
  for (const std::string& warning : config_warnings(config))
    out.push_back(
        {"settings", Health::kWarn, warning, "leave it out, or change what it goes with"});
  if (out.size() == before)
    out.push_back({"settings", Health::kOk, "no setting contradicts another", ""});
}

void check_model(const Config& given, bool checksums, Findings& out) {
  if (given.model.empty()) {
    out.push_back({"model", Health::kWarn, "no model is set", "set model.path (--model DIR)"});
    return;
  }
  const auto found = find_model(given, given.model);
  if (!found) {
    out.push_back({"model", Health::kFail, found.error().message, unreadable_fix(given.model)});
    return;
  }
  const Config config = config_of(given, *found);
  const fs::path folder = config.model;
  if (const Status path = check_model_path(config); !path) {
    out.push_back({"model", Health::kFail, path.error().message, unreadable_fix(folder)});
    return;
  }
  double bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) continue;
    if (::access(entry.path().c_str(), R_OK) != 0) {
      out.push_back({"model", Health::kFail,
                     fmt::format("cannot read {}: {}", entry.path().string(), error_text(errno)),
                     unreadable_fix(folder)});
      return;
    }
    if (entry.path().extension() == ".safetensors")
      bytes += static_cast<double>(entry.file_size(error));
  }
  if (const Status good = check_start(config); !good)
    out.push_back(
        {"model", Health::kFail, good.error().message, "mend the setting or file it names"});
  else
    out.push_back({"model", Health::kOk,
                   fmt::format("{}: readable, {} of weights", folder.string(), size_text(bytes)),
                   ""});
  check_manifest(folder, checksums, out);
}

void check_disk(const Config& config, Findings& out) {
  if (!config.model.empty()) check_space("models", config.model, out);
  check_space("state",
              fs::path(config.keeps_log() ? config.log_path : config.keys_path).parent_path(), out);
}

void check_port(const Config& config, bool serving, Findings& out) {
  if (serving) {
    out.push_back({"port", Health::kOk,
                   fmt::format("{} port {}: this server listens there", config.host, config.port),
                   ""});
    return;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int rc =
      ::getaddrinfo(config.host.c_str(), std::to_string(config.port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  if (rc != 0) {
    out.push_back({"port", Health::kFail,
                   fmt::format("--host {}: {}", config.host, ::gai_strerror(rc)),
                   "give --host an address of this machine"});
    return;
  }
  out.push_back(look_at_port(config, *addresses));
}

void check_keys(const Config& config, Findings& out) {
  const auto keys = read_keys(config.keys_path);
  if (!keys) {
    out.push_back({"keys", Health::kFail, keys.error().message,
                   "give the file to the service's user, or set another --keys-path"});
    return;
  }
  const bool loopback =
      config.host == "localhost" || config.host == "::1" || config.host.starts_with("127.");
  const auto n_good = std::ranges::count_if(*keys, &ApiKey::is_good);
  const bool has_admin =
      std::ranges::any_of(*keys, [](const ApiKey& key) { return key.is_good() && key.admin; });
  const std::string create = "`heteroserve keys create NAME --admin`";
  if (keys->empty() && !loopback)
    out.push_back(
        {"keys", Health::kFail,
         fmt::format("no API keys, and --host {} can be reached from other machines", config.host),
         create});
  else if (keys->empty())
    out.push_back(
        {"keys", Health::kOk, "no API keys: whoever is on this machine may use the server", ""});
  else if (!has_admin)
    out.push_back(
        {"keys", Health::kWarn,
         fmt::format("{} good keys, none of them an admin's: nobody can see the request log",
                     n_good),
         create});
  else
    out.push_back(
        {"keys", Health::kOk, fmt::format("{} good keys of {}", n_good, keys->size()), ""});
}

void check_log(const Config& config, Findings& out) {
  const std::string& path = config.log_path;
  if (!config.keeps_log()) {
    out.push_back({"log", Health::kOk, "the request log is switched off", ""});
    return;
  }
  const auto facts = inspect_log(path, kLogCheckBytesMax);
  if (!facts && facts.error().kind == ErrorKind::kNotFound) {
    fs::path folder = fs::absolute(path).parent_path();
    std::error_code error;
    while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
    const bool writable = ::access(folder.c_str(), W_OK) == 0;
    out.push_back(
        {"log", writable ? Health::kOk : Health::kFail,
         fmt::format("{} is not there yet{}", path,
                     writable ? "" : fmt::format(", and {} cannot be written", folder.string())),
         writable ? "" : "give the folder to the service's user, or set another --log-path"});
    return;
  }
  if (!facts) {
    const bool busy = facts.error().kind == ErrorKind::kUnavailable;
    out.push_back({"log", busy ? Health::kWarn : Health::kFail,
                   fmt::format("{}: {}", path, facts.error().message),
                   busy ? "another program holds its lock: close it"
                        : "the server begins a new one in its place and keeps this beside it"});
    return;
  }
  const std::string size = size_text(static_cast<double>(facts->bytes));
  if (!facts->is_sound)
    out.push_back(
        {"log", Health::kFail, fmt::format("{} is damaged", path),
         fmt::format("stop the server, save what can be read (`sqlite3 {} .recover`), and "
                     "remove it",
                     path)});
  else if (facts->schema > schema_version())
    out.push_back({"log", Health::kFail,
                   fmt::format("{} has schema version {}, and this build knows up to {}", path,
                               facts->schema, schema_version()),
                   "use the newer HeteroServe that wrote it, or another --log-path"});
  else if (facts->schema < schema_version())
    out.push_back(
        {"log", Health::kWarn,
         fmt::format("{} has schema version {} of {}", path, facts->schema, schema_version()),
         "the server upgrades it at its next start; keep a copy to go back"});
  else
    out.push_back(
        {"log", Health::kOk,
         fmt::format("{}: schema version {}, {} rows, {}", path, facts->schema, facts->rows, size),
         ""});
}

void check_service(Findings& out) {
  std::error_code error;
  if (!fs::exists("/run/systemd/system", error)) {
    out.push_back({"service", Health::kOk, "systemd does not run here", ""});
    return;
  }
  const std::string shown = said_by(
      "timeout 5 systemctl show heteroserve.service "
      "-p LoadState,ActiveState,SubState,NRestarts,Result 2>/dev/null");
  const std::string load = value_of(shown, "LoadState");
  const std::string active = value_of(shown, "ActiveState");
  if (load != "loaded") {
    out.push_back({"service", Health::kOk, "no unit heteroserve.service is installed", ""});
    return;
  }
  const bool failed = active == "failed";
  out.push_back(
      {"service",
       failed               ? Health::kFail
       : active == "active" ? Health::kOk
                            : Health::kWarn,
       fmt::format("heteroserve.service is {} ({}), {} restarts", active,
                   value_of(shown, failed ? "Result" : "SubState"), value_of(shown, "NRestarts")),
       failed               ? "`journalctl -u heteroserve -e` tells why"
       : active == "active" ? ""
                            : "`systemctl enable --now heteroserve`"});
  const std::string security = said_by(
      "timeout 10 systemd-analyze security --no-pager heteroserve.service 2>/dev/null | "
      "grep 'Overall exposure'");
  const size_t colon = security.rfind("service: ");
  if (colon == std::string::npos) return;
  const std::string level = security.substr(colon + 9, security.find('\n') - colon - 9);
  const double score = std::strtod(level.c_str(), nullptr);
  constexpr double kScoreMax = 2.0;
  out.push_back(
      {"service", score > kScoreMax ? Health::kWarn : Health::kOk,
       fmt::format("hardening: exposure {} (systemd-analyze security)", level),
       score > kScoreMax ? "a drop-in loosens the shipped unit: `systemctl cat heteroserve`" : ""});
}

}  // namespace hs
