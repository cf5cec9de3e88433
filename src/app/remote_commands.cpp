// `heteroserve load`, `unload` and `ps`: the running server's model, over its administration API.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "app/commands.h"
#include "app/exit_codes.h"
#include "app/model_commands.h"
#include "app/progress_bar.h"
#include "base/clock.h"
#include "fetch/fetch.h"

namespace hs {
namespace {

using nlohmann::json;

constexpr auto kPoll = std::chrono::milliseconds(200);
constexpr int64_t kAnswerMs = 30'000;

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The server that the same settings start: reached from this machine.
std::string server_url(const Config& config) {
  std::string host = config.host == "0.0.0.0" ? "127.0.0.1"
                     : config.host == "::"    ? "::1"
                                              : config.host;
  if (host.find(':') != host.npos) host = '[' + host + ']';
  return fmt::format("http://{}:{}", host, config.port);
}

Error refusal(const json& body, int status) {
  const auto error = body.find("error");
  const bool has_error = error != body.end() && error->is_object();
  Error out{ErrorKind::kUnavailable, has_error ? text_of(*error, "message") : std::string(),
            has_error ? text_of(*error, "code") : std::string(), ""};
  if (out.message.empty()) out.message = fmt::format("the server answered {}", status);
  if (status == 401 || status == 403) {
    out.code = "auth";
    out.message += " (--key, or HETEROSERVE_ADMIN_KEY: an admin key)";
  }
  if (status == 404) out.kind = ErrorKind::kNotFound;
  if (status < 500 && status != 404) out.kind = ErrorKind::kInvalidArgument;
  return out;
}

class Remote {
 public:
  Remote(const Config& config, const ModelsOptions& options) : url_(server_url(config)) {
    const char* key = std::getenv("HETEROSERVE_ADMIN_KEY");
    key_ = !options.key.empty() ? options.key : key != nullptr ? key : "";
  }

  // `body`: "" = GET.
  Result<json> ask(const std::string& path, const std::string& body = {}) const {
    FetchRequest request;
    request.url = url_ + path;
    request.json_body = body;
    request.bearer_token = key_;
    request.use_proxy = false;
    request.limits.total_ms = kAnswerMs;
    request.limits.redirects_max = 0;
    const auto answer = fetch(request);
    if (!answer)
      return fail(ErrorKind::kUnavailable,
                  fmt::format("no server at {}: {}", url_, answer.error().message));
    json parsed = json::parse(answer->body, nullptr, false);
    if (!parsed.is_object()) parsed = json::object();
    if (answer->head.status >= 300) return std::unexpected(refusal(parsed, answer->head.status));
    return parsed;
  }
  // "served" of the list of models.
  Result<json> served() const {
    const auto models = ask("/admin/models");
    if (!models) return std::unexpected(models.error());
    const auto served = models->find("served");
    if (served == models->end() || !served->is_object())
      return fail(ErrorKind::kInternal, "the server's answer is not understood");
    return *served;
  }

 private:
  std::string url_;
  std::string key_;
};

int failure(const Error& error) {
  print_error(error);
  return models_exit_code(error);
}

int32_t percent_of(const json& served) {
  const auto found = served.find("percent");
  return found != served.end() && found->is_number_integer() ? found->get<int32_t>() : 0;
}

// Until the server is ready or empty.
Result<json> wait_until_settled(const Remote& remote) {
  const SystemClock clock;
  ProgressBar bar(clock, isatty(STDERR_FILENO) == 1);
  while (true) {
    auto served = remote.served();
    if (!served) return served;
    const std::string state = text_of(*served, "state");
    if (state == "ready" || state == "empty") return served;
    bar.show(text_of(*served, "phase"), percent_of(*served), 101);
    std::this_thread::sleep_for(kPoll);
  }
}

int print_served(const json& served, const ModelsOptions& options) {
  if (options.json) {
    fmt::print("{}\n", served.dump(-1, ' ', false, json::error_handler_t::replace));
    return kExitOk;
  }
  const std::string model = text_of(served, "model");
  fmt::print("{:<44}  {:<10}  {}\n", "MODEL", "STATE", "COMMIT");
  if (!model.empty() && text_of(served, "state") != "empty") {
    const std::string id = text_of(served, "id");
    fmt::print("{:<44}  {:<10}  {}\n", model, text_of(served, "state"),
               id.empty() ? "-" : id.substr(id.find('@') + 1));
  }
  return kExitOk;
}

// What a change came to.
int settle(const Remote& remote, const ModelsOptions& options) {
  const auto served = wait_until_settled(remote);
  if (!served) return failure(served.error());
  const auto error = served->find("error");
  if (error != served->end() && error->is_object()) {
    print_error({ErrorKind::kInternal, text_of(*error, "message"), "", ""});
    return kExitFailure;
  }
  return print_served(*served, options);
}

}  // namespace

int load_command(const Config& config, const ModelsOptions& options) {
  const Remote remote(config, options);
  const auto begun = remote.ask(
      "/admin/models/load",
      json{{"model", options.model}}.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!begun) return failure(begun.error());
  return options.no_wait ? print_served(*begun, options) : settle(remote, options);
}

int unload_command(const Config& config, const ModelsOptions& options) {
  const Remote remote(config, options);
  const auto begun = remote.ask("/admin/models/unload", "{}");
  if (!begun) return failure(begun.error());
  return options.no_wait ? print_served(*begun, options) : settle(remote, options);
}

int ps_command(const Config& config, const ModelsOptions& options) {
  const auto served = Remote(config, options).served();
  if (!served) return failure(served.error());
  return print_served(*served, options);
}

}  // namespace hs
