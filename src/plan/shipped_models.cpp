// models.toml -> ModelShape.
#include <fmt/format.h>

#include "plan/model_shape.h"
#include "plan/toml_table.h"

namespace hs {
namespace {

constexpr int64_t kSizeMax = 1 << 18;

class Fields {
 public:
  Fields(const TomlTable& table, std::optional<Error>& error) : table_(table), error_(error) {}
  int32_t size(std::string_view key, std::optional<int64_t> fallback = {}, int64_t max = kSizeMax) {
    return static_cast<int32_t>(table_.integer(key, fallback ? 0 : 1, max, fallback, error_));
  }
  int64_t pixels(std::string_view key) {
    return table_.integer(key, 0, int64_t{1} << 40, 0, error_);
  }
  bool flag(std::string_view key) { return table_.flag(key, false, error_); }
  void done() { table_.check_all_read(error_); }

 private:
  const TomlTable& table_;
  std::optional<Error>& error_;
};

LanguageShape read_language(const TomlTable& table, std::optional<Error>& error) {
  Fields fields(table, error);
  LanguageShape shape;
  shape.n_layers = fields.size("n_layers", {}, 4096);
  shape.dim = fields.size("dim");
  shape.ff_dim = fields.size("ff_dim");
  shape.n_heads = fields.size("n_heads", {}, 4096);
  shape.n_kv_heads = fields.size("n_kv_heads", {}, 4096);
  shape.d_head = fields.size("d_head", {}, 4096);
  shape.vocab = fields.size("vocab", {}, 1 << 24);
  shape.max_positions = fields.size("max_positions", {}, 1 << 26);
  shape.tied = fields.flag("tied");
  fields.done();
  return shape;
}

VisionShape read_vision(const TomlTable& table, std::optional<Error>& error) {
  Fields fields(table, error);
  VisionShape shape;
  shape.n_layers = fields.size("n_layers", {}, 4096);
  shape.n_full_layers = fields.size("n_full_layers", 0, shape.n_layers);
  shape.dim = fields.size("dim");
  shape.ff_dim = fields.size("ff_dim");
  shape.ff_matrices = fields.size("ff_matrices", {}, 3);
  shape.patch_size = fields.size("patch_size", {}, 4096);
  shape.patch_dim = fields.size("patch_dim");
  shape.window = fields.size("window", 0);
  shape.class_token = fields.flag("class_token");
  shape.merge = std::max(1, fields.size("merge", 1, 4096));
  shape.image_size = fields.size("image_size", 0);
  shape.fixed_rows = fields.size("fixed_rows", 0);
  shape.min_pixels = fields.pixels("min_pixels");
  shape.max_pixels = fields.pixels("max_pixels");
  shape.projector_dim = fields.size("projector_dim");
  if (shape.fixed_rows == 0 && shape.max_pixels <= 0) {
    table.complain("max_pixels", "is needed where fixed_rows is not given", error);
  }
  fields.done();
  return shape;
}

}  // namespace

Result<std::vector<ModelShape>> read_model_shapes(std::string_view toml, std::string_view file) {
  const auto root = TomlTable::parse(toml, file);
  if (!root) return std::unexpected(root.error());
  std::vector<ModelShape> shapes;
  std::optional<Error> error;
  for (const auto& [name, table] : root->tables()) {
    const TomlTable* language = table.table("language");
    const TomlTable* vision = table.table("vision");
    if (language == nullptr) table.complain("language", "is missing", error);
    if (vision == nullptr) table.complain("vision", "is missing: no vision part", error);
    if (error) break;
    ModelShape shape;
    shape.name = name;
    shape.source = table.text("source", {}, error);
    shape.language = read_language(*language, error);
    shape.vision = read_vision(*vision, error);
    shapes.push_back(std::move(shape));
  }
  if (error) return std::unexpected(*error);
  return shapes;
}

}  // namespace hs
