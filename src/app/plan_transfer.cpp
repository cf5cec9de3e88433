// `heteroserve plan transfer` and `plan cards`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/exit_codes.h"
#include "app/plan_inputs.h"
#include "plan/shipped_data.h"
#include "plan/transfer_cost.h"

namespace hs {
namespace {

constexpr double kKib = 1024;
constexpr double kMib = 1024 * kKib;
constexpr auto kModelled = Origin::kModelled;
constexpr auto kPublished = Origin::kPublished;

// The ends of the range that arXiv 2603.12707 states for the ratio.
constexpr double kPaperLow = 12;
constexpr double kPaperHigh = 196;

Status add_bytes(Report& report, const std::vector<ModelShape>& shapes,
                 const PlanOptions& options) {
  Report::Table& table = report.table(
      "cuts",
      fmt::format("What each cut of a request moves: one picture, a context of {} tokens",
                  options.context),
      {{"model", "model", "", {}},
       {"image_tokens", "image tokens", "", kModelled, 0},
       {"pixels_mib", "pixels", "MiB", kModelled},
       {"pre_mib", "pre-projector", "MiB", kModelled, 3},
       {"post_mib", "post-projector", "MiB", kModelled},
       {"kv_token_kib", "KV a token", "KiB", kModelled, 0},
       {"kv_mib", "KV", "MiB", kModelled, 1},
       {"hidden_mib", "hidden states", "MiB", kModelled, 1},
       {"ratio_at_image", "KV : post, s = N_v", "", kModelled},
       {"ratio_at_context", fmt::format("s = {}", options.context), "", kModelled}});
  for (const ModelShape& shape : shapes) {
    const auto rows = picture_rows(shape, options.workload);
    if (!rows) return std::unexpected(rows.error());
    if (*rows > options.context) {
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("--context: {} tokens have no room for a picture of {} in {}",
                              options.context, *rows, shape.name),
                  {}, "--context");
    }
    const CutBytes bytes = cut_bytes(shape, *rows, options.context, options.value_bytes);
    table.add({shape.name, *rows, static_cast<double>(bytes.pixels) / kMib,
               static_cast<double>(bytes.pre_projector) / kMib,
               static_cast<double>(bytes.post_projector) / kMib,
               static_cast<double>(shape.kv_token_bytes(options.value_bytes)) / kKib,
               static_cast<double>(bytes.kv) / kMib, static_cast<double>(bytes.hidden) / kMib,
               transfer_ratio(shape, *rows, *rows), transfer_ratio(shape, *rows, options.context)});
  }
  table.note(
      "Shapes are published; the bytes follow from them. Numbers take " +
      fmt::format("{} bytes. The ratio is 2 L (n_kv d_head / d) (s / N_v).", options.value_bytes));
  return {};
}

void add_links(Report& report, const ModelShape& shape, int32_t rows, const Catalogue& catalogue,
               const PlanOptions& options) {
  Report::Table& table =
      report.table("links", fmt::format("How long that takes for {}", shape.name),
                   {{"link", "link", "", {}},
                    {"gbs", "rate", "GB/s", kModelled, 1},
                    {"pre_ms", "pre-projector", "ms", kModelled, 3},
                    {"post_ms", "post-projector", "ms", kModelled, 3},
                    {"hidden_ms", "hidden states", "ms", kModelled, 3},
                    {"kv_ms", "KV", "ms", kModelled, 2}});
  const CutBytes bytes = cut_bytes(shape, rows, options.context, options.value_bytes);
  const LinkRates& rates = catalogue.link;
  const auto add = [&](const std::string& name, const LinkPath& path) {
    const auto ms = [&](int64_t n) { return copy_us(path, static_cast<double>(n), rates) / 1000; };
    table.add({name, path.gbs, ms(bytes.pre_projector), ms(bytes.post_projector), ms(bytes.hidden),
               ms(bytes.kv)});
  };
  for (int32_t generation = 3; generation <= 5; ++generation) {
    for (const int32_t lanes : {4, 8, 16}) {
      if (options.lanes > 0 && lanes != 16) continue;
      const int32_t width = options.lanes > 0 ? options.lanes : lanes;
      add(fmt::format("PCIe {} x{}, staged", generation, width),
          pcie_path(LinkPath::Kind::kStaged, generation, width, rates));
      add(fmt::format("PCIe {} x{}, peer", generation, width),
          pcie_path(LinkPath::Kind::kPeer, generation, width, rates));
    }
  }
  for (const Card& card : catalogue.cards) {
    if (card.nvlink_gbs > 0) {
      add(fmt::format("NVLink of {}", card.name), nvlink_path(card.nvlink_gbs, rates));
    }
  }
  table.note(fmt::format(
      "Rates are {:.0f} % of the line rate of PCIe and {:.0f} % of NVLink's; "
      "staged copies overlap both hops in chunks of {} MiB.",
      100 * rates.pcie_efficiency, 100 * rates.nvlink_efficiency, rates.staged_chunk_mib));
}

void add_paper_range(Report& report, const std::vector<ModelShape>& shapes) {
  Report::Table& table = report.table(
      "paper_range", "The paper's \"12x to 196x\": where its ends are met, and where it fails",
      {{"model", "model", "", {}},
       {"image_tokens", "image tokens", "", {}, 0},
       {"context", "context", "", {}, 0},
       {"ratio", "KV : post", "", kModelled},
       {"verdict", "in 12x to 196x", "", {}}});
  struct Setting {
    const char* model;
    int32_t rows;
    int32_t context;
    const char* verdict;
  };
  const Setting settings[] = {
      {"qwen2.5-vl-7b", 1369, 2048, "its lower end: a picture of 1036 x 1036 pixels"},
      {"llava-1.5-7b", 576, 1764, "its upper end"},
      {"llava-1.5-13b", 576, 1411, "its upper end, too"},
      {"qwen2.5-vl-7b", 1024, 1056, "no, below: the hand-over of a short prompt"},
      {"qwen2.5-vl-3b", 1024, 1056, "no, below: the hand-over of a short prompt"},
      {"llava-1.5-7b", 576, 2048, "no, above"},
      {"llava-1.5-13b", 576, 2048, "no, above"}};
  for (const Setting& setting : settings) {
    const auto shape = std::ranges::find(shapes, setting.model, &ModelShape::name);
    if (shape == shapes.end()) continue;
    table.add({setting.model, setting.rows, setting.context,
               transfer_ratio(*shape, setting.rows, setting.context), setting.verdict});
  }
  table.note(
      "The settings behind the paper's range are not public; these give its ends. The ratio");
  table.note("grows with the context and is no constant of a model.");
}

void add_context_of_range(Report& report, const ModelShape& shape, int32_t rows) {
  Report::Table& table =
      report.table("paper_range", "The paper's \"12x to 196x\" with these pictures",
                   {{"ratio", "KV : post", "", kPublished, 0},
                    {"context", "met at a context of", "tokens", kModelled, 0}});
  for (const double ratio : {kPaperLow, kPaperHigh}) {
    table.add({ratio, context_at_ratio(shape, rows, ratio)});
  }
  const double smallest = transfer_ratio(shape, rows, rows);
  if (smallest < kPaperLow) {
    table.note(
        fmt::format("It fails below: with a prompt of little more than the picture the ratio "
                    "is {:.1f}.",
                    smallest));
  }
}

Status make_report(Report& report, const PlanOptions& options) {
  const auto catalogue = load_catalogue(options);
  if (!catalogue) return std::unexpected(catalogue.error());
  if (options.model.empty()) {
    const auto shapes = shipped_shapes();
    if (!shapes) return std::unexpected(shapes.error());
    if (Status status = add_bytes(report, *shapes, options); !status) return status;
    add_paper_range(report, *shapes);
    report.note("Times over links: name one with --model.");
    return {};
  }
  const auto shape = load_shape(options.model);
  if (!shape) return std::unexpected(shape.error());
  const auto rows = picture_rows(*shape, options.workload);
  if (!rows) return std::unexpected(rows.error());
  if (Status status = add_bytes(report, {*shape}, options); !status) return status;
  add_links(report, *shape, *rows, *catalogue, options);
  add_context_of_range(report, *shape, *rows);
  return {};
}

}  // namespace

int plan_transfer_command(const PlanOptions& options) {
  Report report("plan transfer");
  if (const Status made = make_report(report, options); !made) return plan_failure(made.error());
  return print_report(report, options.json);
}

int plan_cards_command(const PlanOptions& options) {
  if (options.toml && options.cards.empty()) {
    const std::string_view text = shipped_cards_toml();
    std::fwrite(text.data(), 1, text.size(), stdout);
    return kExitOk;
  }
  const auto catalogue = load_catalogue(options);
  if (!catalogue) return plan_failure(catalogue.error());
  Report report("plan cards");
  Report::Table& table = report.table("cards", "Cards",
                                      {{"card", "card", "", {}},
                                       {"name", "name", "", {}},
                                       {"pool", "pool", "", {}},
                                       {"tflops", "tensor", "TFLOPS", kPublished, 1},
                                       {"bandwidth_gbs", "memory rate", "GB/s", kPublished, 0},
                                       {"memory_gb", "memory", "GB", kPublished, 0},
                                       {"power_w", "power", "W", kPublished, 0},
                                       {"price_usd", "price", "USD", {}, 0}});
  for (const Card& card : catalogue->cards) {
    table.add({card.key, card.name, card.pool == Pool::kConsumer ? "consumer" : "datacenter",
               card.tflops, card.bandwidth_gbs, card.memory_gb, card.power_w, card.price_usd});
    table.note(fmt::format("{}: {}", card.key, card.source));
  }
  const Efficiency& efficiency = catalogue->efficiency;
  Report::Table& rates = report.table(
      "efficiency", "Efficiencies",
      {{"what", "what", "", {}}, {"share", "share of the peak", "", efficiency.origin}});
  rates.add({"matrix products of the language model", efficiency.language});
  rates.add({"those of the vision tower", efficiency.vision});
  rates.add({"memory rate", efficiency.bandwidth});
  return print_report(report, options.json);
}

}  // namespace hs
