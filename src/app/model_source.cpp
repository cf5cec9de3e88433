#include "app/model_source.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "app/served_engine.h"
#include "plan/cards.h"
#include "plan/shipped_data.h"

namespace hs {
namespace {

namespace fs = std::filesystem;

Result<LoadTarget> directory(const Config& config, const std::string& name) {
  Config named = config;
  named.model = name;
  if (Status good = check_model_path(named); !good) return std::unexpected(good.error());
  return LoadTarget{name, "", name, served_names(named), nullptr};
}

bool looks_like_path(const std::string& name) {
  return name.starts_with('/') || name.starts_with('.') || name.starts_with('~');
}

}  // namespace

Result<LoadTarget> find_model(const Config& config, const std::string& name) {
  std::error_code error;
  if (name.empty() || looks_like_path(name) || fs::exists(name, error))
    return directory(config, name);
  const ModelStore store(config.models_dir);
  const auto model = store.find(name);
  if (!model && model.error().code == "model_not_stored")
    return fail(ErrorKind::kNotFound,
                fmt::format("{} is not a directory, and not a model in {} (heteroserve list shows "
                            "those that are)",
                            name, config.models_dir),
                "model_not_stored", "model");
  if (!model) return std::unexpected(model.error());
  auto hold = store.hold(*model);
  if (!hold) return std::unexpected(hold.error());
  LoadTarget target;
  target.model = model->manifest.repo;
  target.id = model->id();
  target.path = model->path.string();
  // What the command line names its model is for that one alone.
  target.names = name == config.model && !config.served_model_names.empty()
                     ? config.served_model_names
                     : std::vector<std::string>{model->manifest.repo};
  target.hold = std::make_shared<FileLock>(*std::move(hold));
  return target;
}

Config config_of(const Config& config, const LoadTarget& target) {
  Config result = config;
  result.model = target.path;
  result.served_model_names = target.names;
  return result;
}

MemoryFit fit_memory(const Config& config, const PullPlan& plan) {
  MemoryFit fit;
  // Files mostly hold 16 bits a weight.
  fit.needed_bytes = plan.weight_bytes * (config.dtype == DType::kF32 ? 2 : 1);
  fit.available_bytes = static_cast<int64_t>(available_memory_bytes());
  if (const auto catalogue = read_catalogue(shipped_cards_toml(), "cards.toml"))
    for (const Card& card : catalogue->cards) {
      const auto memory_bytes = static_cast<int64_t>(card.memory_gb * 1e9);
      // Card memory holds 16 bits a weight, and something has to be left for the KV cache.
      fit.cards.push_back({card.name, memory_bytes, plan.weight_bytes <= memory_bytes / 10 * 9});
    }
  return fit;
}

}  // namespace hs
