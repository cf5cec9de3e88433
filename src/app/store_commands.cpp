// `heteroserve pull`, `import`, `list`, `show` and `rm`: the model store from the command line.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "api/models_json.h"
#include "app/commands.h"
#include "app/environment.h"
#include "app/exit_codes.h"
#include "app/model_commands.h"
#include "app/model_source.h"
#include "app/progress_bar.h"
#include "base/clock.h"
#include "hub/import.h"
#include "hub/pull.h"

namespace hs {
namespace {

// Set by SIGINT and SIGTERM: what was fetched stays, and the lock is given back in order.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) {
  interrupted = true;
}

void watch_signals() {
  signal(SIGINT, on_interrupt);
  signal(SIGTERM, on_interrupt);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a full disk
  signal(SIGPIPE, SIG_IGN);
}

bool is_interrupted() {
  return interrupted.load();
}

int failure(const Error& error) {
  print_error(error);
  if (error.kind == ErrorKind::kCancelled) return kExitInterrupted;
  return models_exit_code(error);
}

std::string day_text(int64_t unix_ms) {
  return fmt::format("{:%Y-%m-%d}", fmt::localtime(static_cast<std::time_t>(unix_ms / 1000)));
}

std::string yes_no(bool yes) {
  return yes ? "fits" : "does not fit";
}

void print_plan(const PullPlan& plan, const MemoryFit& fit) {
  fmt::print(stderr, "{} at {} ({}): {} in {} files", plan.model.ref.repo(),
             plan.model.commit.substr(0, 12), plan.architecture, size_text(plan.bytes_total),
             plan.files.size());
  if (plan.installed) {
    fmt::print(stderr, "; in the store already\n");
    return;
  }
  fmt::print(stderr, ", {} missing\n", size_text(plan.bytes_missing));
  fmt::print(stderr, "disk: {} free, {} stay free: {}\n", size_text(plan.disk.free_bytes),
             size_text(plan.disk.reserve_bytes), yes_no(plan.fits_disk()));
  fmt::print(stderr, "main memory: {} of weights, {} available now: {}\n",
             size_text(fit.needed_bytes), size_text(fit.available_bytes), yes_no(fit.fits()));
  for (const MemoryFit::Card& card : fit.cards)
    fmt::print(stderr, "{}: {}: {}\n", card.name, size_text(card.memory_bytes), yes_no(card.fits));
}

void print_model(const StoredModel& model, bool json) {
  if (json)
    fmt::print("{}\n", stored_model_json(model, "stored"));
  else
    fmt::print("{}\n", model.id());
}

int remove_partials(const ModelStore& store, const ModelsOptions& options) {
  const auto removed = store.remove_partials(options.model);
  if (!removed) return failure(removed.error());
  if (options.json)
    fmt::print("{{\"removed\":{}}}\n", *removed);
  else
    fmt::print("{} removed\n", *removed);
  return kExitOk;
}

}  // namespace

int pull_command(const Config& config, const ModelsOptions& options) {
  watch_signals();
  const auto ref = parse_model_ref(options.model);
  if (!ref) return failure(ref.error());
  const ModelStore store(config.models_dir);
  const HubEndpoint endpoint = hub_endpoint(process_environment);
  const auto plan = plan_pull(store, endpoint, *ref, is_interrupted);
  if (!plan) return failure(plan.error());
  const MemoryFit fit = fit_memory(config, *plan);
  if (options.dry_run && options.json) fmt::print("{}\n", pull_plan_json(*plan, fit));
  if (!options.json) print_plan(*plan, fit);
  if (const Status fits = check_disk(*plan); !fits) return failure(fits.error());
  if (options.dry_run) return kExitOk;
  const SystemClock clock;
  PullHooks hooks;
  hooks.cancelled = is_interrupted;
  Result<StoredModel> model = fail(ErrorKind::kInternal, "not begun");
  {
    ProgressBar bar(clock, isatty(STDERR_FILENO) == 1);
    hooks.progress = [&bar](const PullProgress& progress) {
      bar.show(progress.checking ? "checking " + progress.file : progress.file, progress.bytes_done,
               progress.bytes_total);
    };
    model = run_pull(store, endpoint, *plan, hooks, clock);
  }
  if (!model) return failure(model.error());
  print_model(*model, options.json);
  return kExitOk;
}

int import_command(const Config& config, const ModelsOptions& options) {
  watch_signals();
  const SystemClock clock;
  const ModelStore store(config.models_dir);
  Result<StoredModel> model = fail(ErrorKind::kInternal, "not begun");
  {
    ProgressBar bar(clock, isatty(STDERR_FILENO) == 1);
    ImportOptions wanted;
    wanted.name = options.name;
    wanted.copy = options.copy;
    wanted.cancelled = is_interrupted;
    wanted.progress = [&bar](const PullProgress& progress) {
      bar.show(progress.file, progress.bytes_done, progress.bytes_total);
    };
    model = import_model(store, options.from, wanted, clock);
  }
  if (!model) return failure(model.error());
  print_model(*model, options.json);
  return kExitOk;
}

int list_command(const Config& config, const ModelsOptions& options) {
  const ModelStore store(config.models_dir);
  const auto models = store.list();
  if (!models) return failure(models.error());
  const auto partials = store.partials();
  if (!partials) return failure(partials.error());
  if (!options.json)
    fmt::print("{:<44}  {:<18}  {:>9}  {:<36}  {}\n", "MODEL", "COMMIT", "SIZE", "ARCHITECTURE",
               "INSTALLED");
  for (const StoredModel& model : *models) {
    const ModelManifest& manifest = model.manifest;
    if (options.json)
      fmt::print("{}\n", stored_model_json(model, "stored"));
    else
      fmt::print("{:<44}  {:<18}  {:>9}  {:<36}  {}\n", manifest.repo,
                 manifest.commit.substr(0, 18), size_text(manifest.bytes()), manifest.architecture,
                 day_text(manifest.installed_ms));
  }
  for (const PartialModel& partial : *partials)
    fmt::print(stderr, "not complete: {} ({}); `pull` goes on, `rm --partial` removes it\n",
               partial.repo, size_text(partial.bytes));
  return kExitOk;
}

int show_command(const Config& config, const ModelsOptions& options) {
  const auto model = ModelStore(config.models_dir).find(options.model);
  if (!model) return failure(model.error());
  if (options.json) {
    fmt::print("{}\n", stored_model_json(*model, "stored"));
    return kExitOk;
  }
  const ModelManifest& manifest = model->manifest;
  fmt::print("model         {}\ncommit        {} ({})\narchitecture  {}\nsize          {}\n",
             manifest.repo, manifest.commit, manifest.revision, manifest.architecture,
             size_text(manifest.bytes()));
  fmt::print("from          {}\ninstalled     {}\nfolder        {}\n", manifest.source,
             day_text(manifest.installed_ms), model->path.string());
  for (const StoredFile& file : manifest.files)
    fmt::print("{:>12}  {}  {}\n", file.bytes, file.sha256, file.path);
  return kExitOk;
}

int rm_command(const Config& config, const ModelsOptions& options) {
  const ModelStore store(config.models_dir);
  if (options.partial) return remove_partials(store, options);
  if (options.model.empty()) {
    print_error({ErrorKind::kInvalidArgument, "rm: name a model, or give --partial", "", ""});
    return kExitUsage;
  }
  const auto model = store.find(options.model);
  if (!model) return failure(model.error());
  if (const Status removed = store.remove(*model); !removed) return failure(removed.error());
  print_model(*model, options.json);
  return kExitOk;
}

}  // namespace hs
