#include "app/plan_inputs.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "app/commands.h"
#include "app/exit_codes.h"
#include "plan/shipped_data.h"

namespace hs {

Result<std::vector<ModelShape>> shipped_shapes() {
  return read_model_shapes(shipped_models_toml(), "models.toml");
}

Result<ModelShape> load_shape(const std::string& name) {
  const auto shapes = shipped_shapes();
  if (!shapes) return std::unexpected(shapes.error());
  std::string known;
  for (const ModelShape& shape : *shapes) {
    if (shape.name == name) return shape;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", shape.name);
  }
  std::error_code ignored;
  if (!std::filesystem::exists(name, ignored)) {
    return fail(ErrorKind::kNotFound,
                fmt::format("--model: \"{}\" is neither a file nor one of {}", name, known), {},
                "--model");
  }
  return read_model_config(std::filesystem::path(name));
}

Result<Catalogue> load_catalogue(const PlanOptions& options) {
  if (options.cards.empty()) return read_catalogue(shipped_cards_toml(), "cards.toml");
  std::ifstream file(options.cards, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    return fail(ErrorKind::kNotFound, fmt::format("--cards: cannot read {}", options.cards), {},
                "--cards");
  }
  return read_catalogue(text, options.cards);
}

Result<PictureSize> parse_picture_size(const std::string& text, std::string_view field) {
  PictureSize size;
  const char* end = text.data() + text.size();
  const auto width = std::from_chars(text.data(), end, size.width);
  if (width.ec == std::errc() && width.ptr != end && *width.ptr == 'x') {
    const auto height = std::from_chars(width.ptr + 1, end, size.height);
    if (height.ec == std::errc() && height.ptr == end && size.width > 0 && size.height > 0) {
      return size;
    }
  }
  return fail(ErrorKind::kInvalidArgument,
              fmt::format("{}: \"{}\" is not WIDTHxHEIGHT, for example 896x896", field, text), {},
              std::string(field));
}

Result<int32_t> picture_rows(const ModelShape& shape, const WorkloadOptions& workload) {
  if (workload.image_tokens > 0) return workload.image_tokens;
  const auto size = parse_picture_size(workload.image_size, "--image-size");
  if (!size) return std::unexpected(size.error());
  auto rows = shape.image_rows(*size);
  if (!rows) {
    return fail(rows.error().kind, fmt::format("--image-size: {}", rows.error().message), {},
                "--image-size");
  }
  return rows;
}

int plan_failure(const Error& error) {
  print_error(error);
  return error.kind == ErrorKind::kNotFound ? kExitUnavailable : kExitConfig;
}

int print_report(const Report& report, bool json) {
  const std::string text = json ? report.json() : report.text();
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitOk;
}

}  // namespace hs
