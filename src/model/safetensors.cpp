#include "model/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace hs {

namespace {

constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the limit of the reference implementation
constexpr size_t kRankMax = 8;
constexpr std::string_view kLfsPrefix = "version https://git-lfs.github.com/spec/";

struct DTypeName {
  std::string_view text;
  size_t bytes;
  std::optional<DType> dtype;
};

constexpr DTypeName kDTypes[] = {
    {"F32", 4, DType::kF32},   {"F16", 2, DType::kF16},      {"BF16", 2, DType::kBF16},
    {"F64", 8, DType::kF64},   {"I64", 8, DType::kI64},      {"I32", 4, DType::kI32},
    {"I16", 2, DType::kI16},   {"I8", 1, DType::kI8},        {"U8", 1, DType::kU8},
    {"BOOL", 1, DType::kBool}, {"U64", 8, std::nullopt},     {"U32", 4, std::nullopt},
    {"U16", 2, std::nullopt},  {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
};

// Builds the tensor list straight from parse events, so that a hostile header costs no more memory
// than its text.
class HeaderSax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<TensorInfo> tensors;
  std::string problem;

  bool null() override { return unexpected("null"); }
  bool boolean(bool /*value*/) override { return unexpected("a boolean"); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return unexpected("a fraction");
  }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return unexpected("binary"); }
  bool number_integer(int64_t /*value*/) override { return unexpected("a negative number"); }

  bool number_unsigned(uint64_t value) override {
    if (field_ == Field::kShape && depth_ == 3) {
      if (tensors.back().shape.size() == kRankMax) return complain("has too many dimensions");
      if (value > INT64_MAX) return complain("has a dimension beyond 2^63");
      tensors.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (field_ == Field::kOffsets && depth_ == 3) {
      if (n_offsets_ == 2) return complain("has more than two data_offsets");
      (n_offsets_++ == 0 ? tensors.back().begin : tensors.back().end) = value;
      return true;
    }
    return unexpected("a number");
  }

  bool string(std::string& value) override {
    if (in_metadata_ && depth_ == 2) return true;
    if (field_ != Field::kDType || depth_ != 2) return unexpected("a string");
    tensors.back().dtype_text = std::move(value);
    return true;
  }

  bool start_object(size_t /*elements*/) override {
    if (depth_ > 1 || (depth_ == 1 && !has_key_)) return unexpected("an object");
    ++depth_;
    seen_fields_ = 0;
    n_offsets_ = 0;
    field_ = Field::kNone;
    return true;
  }

  bool key(std::string& name) override {
    if (depth_ == 1) {
      has_key_ = true;
      in_metadata_ = name == "__metadata__";
      if (!names_.insert(name).second) {
        problem = fmt::format("tensor {} stands there twice", name);
        return false;
      }
      if (!in_metadata_) tensors.emplace_back().name = std::move(name);
      return true;
    }
    if (in_metadata_) return true;
    field_ = name == "dtype"          ? Field::kDType
             : name == "shape"        ? Field::kShape
             : name == "data_offsets" ? Field::kOffsets
                                      : Field::kNone;
    if (field_ == Field::kNone) return complain(fmt::format("has an unknown field \"{}\"", name));
    const unsigned bit = 1U << static_cast<unsigned>(field_);
    if ((seen_fields_ & bit) != 0) return complain(fmt::format("has {} twice", name));
    seen_fields_ |= bit;
    return true;
  }

  bool end_object() override {
    --depth_;
    if (depth_ != 1 || in_metadata_) return true;
    has_key_ = false;
    if (seen_fields_ != 0b1110 || n_offsets_ != 2) {
      return complain("lacks dtype, shape or data_offsets");
    }
    return true;
  }

  bool start_array(size_t /*elements*/) override {
    if (depth_ != 2 || (field_ != Field::kShape && field_ != Field::kOffsets)) {
      return unexpected("a list");
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    problem = fmt::format("its header is not valid JSON (byte {})", position + 8);
    return false;
  }

 private:
  enum class Field : unsigned { kNone, kDType, kShape, kOffsets };

  bool complain(std::string_view what) {
    problem = fmt::format("tensor {} {}", tensors.back().name, what);
    return false;
  }
  bool unexpected(std::string_view what) {
    problem = tensors.empty()
                  ? fmt::format("its header holds {} in a place where none belongs", what)
                  : fmt::format("its header holds {} in a wrong place, at tensor {}", what,
                                tensors.back().name);
    return false;
  }

  std::unordered_set<std::string> names_;
  int depth_ = 0;  // 1: inside the header object, 2: inside a tensor, 3: inside its list
  bool has_key_ = false;
  bool in_metadata_ = false;
  Field field_ = Field::kNone;
  unsigned seen_fields_ = 0;
  int n_offsets_ = 0;
};

std::unexpected<Error> damaged(std::string_view name, std::string_view what) {
  return fail(ErrorKind::kDataLoss, fmt::format("{}: {}", name, what));
}

uint64_t read_u64(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Fills the dtype and compares shape and byte range. Returns what is wrong, or "".
std::string check_tensor(TensorInfo& tensor) {
  const auto* known = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](const DTypeName& d) { return d.text == tensor.dtype_text; });
  if (tensor.begin > tensor.end) {
    return fmt::format("tensor {} has reversed data_offsets [{}, {}]", tensor.name, tensor.begin,
                       tensor.end);
  }
  if (known == std::end(kDTypes)) return "";  // refused when somebody wants to use it
  tensor.dtype = known->dtype;
  uint64_t bytes = known->bytes;
  for (const int64_t n : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(n), &bytes)) {
      return fmt::format("the size of tensor {} {} overflows", tensor.name,
                         shape_text(tensor.shape));
    }
  }
  if (bytes != tensor.bytes()) {
    return fmt::format("tensor {} {} of {} needs {} bytes, but its data_offsets give it {}",
                       tensor.name, tensor.dtype_text, shape_text(tensor.shape), bytes,
                       tensor.bytes());
  }
  return "";
}

// Tensors must tile the data area exactly. `tensors` sorted by begin. Returns what is wrong, or "".
std::string check_tiling(const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const auto& tensor : tensors) {
    if (tensor.begin < end) {
      return fmt::format("tensor {} overlaps the one before it (begins at {}, that one ends at {})",
                         tensor.name, tensor.begin, end);
    }
    if (tensor.begin > end) {
      return fmt::format("bytes {} to {} before tensor {} belong to no tensor", end, tensor.begin,
                         tensor.name);
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    return fmt::format("holds {} bytes of data more than its header describes", data_bytes - end);
  }
  return "";
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> file,
                                                  std::string_view name) {
  if (as_text(file).starts_with(kLfsPrefix)) {
    return damaged(
        name,
        "is a Git LFS pointer, a small text in place of the weights; fetch the real file "
        "(git lfs pull)");
  }
  if (file.size() < 8) return damaged(name, fmt::format("has only {} bytes", file.size()));
  const uint64_t header_bytes = read_u64(file);
  if (header_bytes > kHeaderBytesMax) {
    return damaged(
        name, fmt::format("says that its header has {} bytes (at most {} are allowed); it is not "
                          "a safetensors file, or damaged",
                          header_bytes, kHeaderBytesMax));
  }
  if (header_bytes > file.size() - 8) {
    return damaged(name, fmt::format("is truncated: its header has {} bytes, the whole file {}",
                                     header_bytes, file.size()));
  }
  HeaderSax sax;
  const std::string_view header = as_text(file.subspan(8, static_cast<size_t>(header_bytes)));
  if (!nlohmann::json::sax_parse(header, &sax)) return damaged(name, sax.problem);

  auto& tensors = sax.tensors;
  for (auto& tensor : tensors) {
    if (const auto problem = check_tensor(tensor); !problem.empty()) return damaged(name, problem);
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const uint64_t data_begin = 8 + header_bytes;
  const uint64_t data_bytes = file.size() - data_begin;
  uint64_t described = 0;
  for (const auto& tensor : tensors) described = std::max(described, tensor.end);
  if (described > data_bytes) {
    return damaged(name,
                   fmt::format("is truncated: its header describes {} bytes of data, {} are there",
                               described, data_bytes));
  }
  if (const auto problem = check_tiling(tensors, data_bytes); !problem.empty()) {
    return damaged(name, problem);
  }
  for (auto& tensor : tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  return std::move(tensors);
}

namespace {

// [begin, end) of every hole of a sparse file. File systems without holes report none.
std::vector<std::pair<uint64_t, uint64_t>> find_holes(int fd, off_t size) {
  std::vector<std::pair<uint64_t, uint64_t>> holes;
  off_t at = 0;
  while (at < size) {
    const off_t hole = lseek(fd, at, SEEK_HOLE);
    if (hole < 0 || hole >= size) break;
    off_t data = lseek(fd, hole, SEEK_DATA);
    if (data < 0) data = size;
    holes.emplace_back(static_cast<uint64_t>(hole), static_cast<uint64_t>(data));
    at = data;
  }
  return holes;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  const auto io_error = [&](std::string_view what) {
    return fail(errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
                fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(errno)));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error("open");
  struct stat status{};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    return fail(ErrorKind::kIo, fmt::format("{} is not a regular file", path.string()));
  }
  SafetensorsFile file;
  file.path_ = path;
  if (status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      ::close(fd);
      return io_error("map");
    }
    file.data_ = static_cast<std::byte*>(data);
    file.size_ = size;
    file.holes_ = find_holes(fd, status.st_size);
  }
  ::close(fd);  // the mapping stays
  auto tensors = parse_safetensors(file.bytes(), path.filename().string());
  if (!tensors) return std::unexpected(std::move(tensors.error()));
  file.tensors_ = std::move(*tensors);
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept {
  *this = std::move(other);
}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  tensors_ = std::move(other.tensors_);
  holes_ = std::move(other.holes_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  close();
}

void SafetensorsFile::close() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
}

std::span<const std::byte> SafetensorsFile::data(const TensorInfo& tensor) const {
  return bytes().subspan(tensor.begin, tensor.bytes());
}

uint64_t SafetensorsFile::hole_bytes(const TensorInfo& tensor) const {
  uint64_t total = 0;
  for (const auto& [begin, end] : holes_) {
    const uint64_t first = std::max(begin, tensor.begin);
    const uint64_t last = std::min(end, tensor.end);
    if (first < last) total += last - first;
  }
  return total;
}

void SafetensorsFile::release(const TensorInfo& tensor) const {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = tensor.begin / page * page;
  // A neighbour on a shared page only has to read that page again.
  if (tensor.end > begin) madvise(data_ + begin, tensor.end - begin, MADV_DONTNEED);
}

}  // namespace hs
