#include "plan/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "plan/toml_table.h"

namespace hs {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kRowsMax = 1 << 26;
constexpr int64_t kBytesMax = int64_t{1} << 50;
constexpr double kUsMax = 1e12;

// A text in quotes, as TOML has it.
std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

void append_time(std::string& out, const MeasuredTime& time) {
  fmt::format_to(std::back_inserter(out), "us = {:.3f}, low_us = {:.3f}, high_us = {:.3f}}},\n",
                 time.us, time.low_us, time.high_us);
}

template <typename T, typename F>
void append_list(std::string& out, std::string_view key, const std::vector<T>& list,
                 F&& append_fields) {
  if (list.empty()) return;
  fmt::format_to(std::back_inserter(out), "{} = [\n", key);
  for (const T& one : list) {
    out += "  {";
    append_fields(one);
    append_time(out, one.time);
  }
  out += "]\n";
}

void append_copies(std::string& out, std::string_view key, const std::vector<MeasuredCopy>& list) {
  append_list(out, key, list, [&](const MeasuredCopy& one) {
    fmt::format_to(std::back_inserter(out), "rows = {}, bytes = {}, ", one.n_rows, one.bytes);
  });
}

void append_device(std::string& out, const ProfiledDevice& device) {
  const auto at = std::back_inserter(out);
  fmt::format_to(at, "\n[devices.{}]\nkv_tokens = {}\n", toml_text(device.name), device.kv_tokens);
  append_list(out, "steps", device.steps, [&](const MeasuredStep& one) {
    fmt::format_to(at, "sequences = {}, tokens = {}, before = {}, sampled = {}, ", one.n_seqs,
                   one.n_tokens, one.n_before, one.sampled);
  });
  append_list(out, "encodes", device.encodes, [&](const MeasuredEncode& one) {
    fmt::format_to(at, "pictures = {}, rows = {}, patches = {}, ", one.n_pictures, one.n_rows,
                   one.n_patches);
  });
  append_list(out, "pauses", device.pauses, [&](const MeasuredPause& one) {
    fmt::format_to(at, "sequences = {}, ", one.n_seqs);
  });
}

class Reader {
 public:
  std::optional<Error> error;

  MeasuredTime time(const TomlTable& table) {
    MeasuredTime time;
    time.us = table.number("us", 0, kUsMax, {}, error);
    time.low_us = table.number("low_us", 0, kUsMax, time.us, error);
    time.high_us = table.number("high_us", 0, kUsMax, time.us, error);
    table.check_all_read(error);
    return time;
  }
  int32_t count(const TomlTable& table, std::string_view key, int64_t min) {
    return static_cast<int32_t>(table.integer(key, min, kRowsMax, {}, error));
  }
  std::vector<MeasuredCopy> copies(const TomlTable& root, std::string_view key) {
    std::vector<MeasuredCopy> result;
    for (const TomlTable& table : root.list(key)) {
      MeasuredCopy one;
      one.n_rows = table.integer("rows", 1, kRowsMax, {}, error);
      one.bytes = table.integer("bytes", 1, kBytesMax, {}, error);
      one.time = time(table);
      result.push_back(one);
    }
    return result;
  }

  ProfiledDevice device(const std::string& name, const TomlTable& table) {
    ProfiledDevice result;
    result.name = name;
    result.kv_tokens = table.integer("kv_tokens", 1, int64_t{1} << 40, {}, error);
    for (const TomlTable& one : table.list("steps")) {
      result.steps.push_back({.n_seqs = count(one, "sequences", 1),
                              .n_tokens = count(one, "tokens", 1),
                              .n_before = count(one, "before", 0),
                              .sampled = one.flag("sampled", false, error),
                              .time = time(one)});
    }
    for (const TomlTable& one : table.list("encodes")) {
      result.encodes.push_back({.n_pictures = count(one, "pictures", 1),
                                .n_rows = count(one, "rows", 1),
                                .n_patches = count(one, "patches", 0),
                                .time = time(one)});
    }
    for (const TomlTable& one : table.list("pauses")) {
      result.pauses.push_back({.n_seqs = count(one, "sequences", 1), .time = time(one)});
    }
    const auto any = [&](auto&& suits) { return std::ranges::any_of(result.steps, suits); };
    if (!any([](const MeasuredStep& one) { return !one.sampled && one.n_before == 0; })) {
      table.complain("steps", "needs a prompt without tokens before it", error);
    }
    if (!any([](const MeasuredStep& one) { return one.sampled && one.n_tokens == 1; })) {
      table.complain("steps", "needs a decode step", error);
    }
    table.check_all_read(error);
    return result;
  }
};

}  // namespace

Result<const ProfiledDevice*> Profile::device(std::string_view name) const {
  std::string known;
  for (const ProfiledDevice& one : devices) {
    if (one.name == name) return &one;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  }
  return fail(ErrorKind::kNotFound,
              fmt::format("{} has no device \"{}\", but {}", file, name, known), {}, "--profile");
}

Status Profile::check_model(const ModelShape& shape) const {
  const LanguageShape& lm = shape.language;
  const int32_t shape_width = lm.n_kv_heads * lm.d_head;
  if (lm.n_layers == n_layers && lm.dim == dim && shape_width == kv_width) return {};
  return fail(ErrorKind::kInvalidArgument,
              fmt::format("--profile: {} was measured with {} ({} layers of {}, keys of {}), not "
                          "with {} ({} layers of {}, keys of {})",
                          file, model, n_layers, dim, kv_width, shape.name, lm.n_layers, lm.dim,
                          shape_width),
              {}, "--profile");
}

std::string profile_toml(const Profile& profile) {
  std::string out =
      "# Measured by heteroserve bench --calibrate, for --profile of plan and simulate.\n"
      "# Medians of repeated runs with the 10th and 90th percentile, microseconds.\n";
  fmt::format_to(std::back_inserter(out),
                 "format = {}\ndate = {}\nmachine = {}\nmodel = {}\ndtype = {}\nlayers = {}\n"
                 "dim = {}\nkv_width = {}\ncrowding = {:.4f}\n",
                 kFormat, toml_text(profile.date), toml_text(profile.machine),
                 toml_text(profile.model), toml_text(profile.dtype), profile.n_layers, profile.dim,
                 profile.kv_width, profile.crowding);
  append_copies(out, "embeddings", profile.embeddings);
  append_copies(out, "keys_values", profile.keys_values);
  for (const ProfiledDevice& device : profile.devices) append_device(out, device);
  return out;
}

Result<Profile> read_profile(std::string_view toml, std::string_view file) {
  const auto root = TomlTable::parse(toml, file);
  if (!root) return std::unexpected(root.error());
  Reader reader;
  auto& error = reader.error;
  Profile result;
  result.file = file;
  root->integer("format", kFormat, kFormat, {}, error);
  result.date = root->text("date", {}, error);
  result.machine = root->text("machine", {}, error);
  result.model = root->text("model", {}, error);
  result.dtype = root->text("dtype", {}, error);
  result.n_layers = reader.count(*root, "layers", 1);
  result.dim = reader.count(*root, "dim", 1);
  result.kv_width = reader.count(*root, "kv_width", 1);
  result.crowding = root->number("crowding", 0.1, 100, 1, error);
  result.embeddings = reader.copies(*root, "embeddings");
  result.keys_values = reader.copies(*root, "keys_values");
  const TomlTable* devices = root->table("devices");
  if (devices == nullptr || devices->tables().empty()) {
    root->complain("devices", "is missing", error);
  } else {
    devices->check_all_read(error);
    for (const auto& [name, table] : devices->tables()) {
      result.devices.push_back(reader.device(name, table));
    }
  }
  for (const auto& [name, table] : root->tables()) {
    if (name != "devices") root->complain(name, "is not known here", error);
  }
  root->check_all_read(error);
  if (error) return std::unexpected(*error);
  return result;
}

}  // namespace hs
