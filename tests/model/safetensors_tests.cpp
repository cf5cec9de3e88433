// A safetensors file is refused for every way in which its header can lie about the file, with a
// message that says what is wrong; what is accepted is read exactly.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <string>

#include "model/safetensors.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs::test {

namespace {

// 8 bytes of length, the header, n bytes of data.
std::string file_of(const std::string& header, size_t data_bytes) {
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

std::string with_length(std::string file, uint64_t length) {
  std::memcpy(file.data(), &length, 8);
  return file;
}

Result<std::vector<TensorInfo>> parse(std::string_view file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "model.safetensors");
}

const std::string kTwo = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("b":{"dtype":"BF16","shape":[2,2],"data_offsets":[8,16]}})";

struct Damage {
  const char* name;
  std::string file;
  const char* message;  // a part of what must be said
};

std::ostream& operator<<(std::ostream& out, const Damage& damage) {
  return out << damage.name;
}

std::string one(const std::string& tensor) {
  return R"({"a":)" + tensor + "}";
}

const Damage kDamages[] = {
    {"empty_file", "", "has only 0 bytes"},
    {"shorter_than_a_length", "abc", "has only 3 bytes"},
    {"length_of_2_to_63", with_length(file_of(kTwo, 16), uint64_t{1} << 63U),
     "9223372036854775808 bytes"},
    {"length_beyond_the_file", with_length(file_of(kTwo, 16), 5000),
     "truncated: its header has 5000 bytes"},
    {"length_of_zero", with_length(file_of(kTwo, 16), 0), "not valid JSON"},
    {"lfs_pointer",
     "version https://git-lfs.github.com/spec/v1\noid "
     "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24"
     "d17e2393\nsize 6290992\n",
     "Git LFS pointer"},
    {"last_byte_cut", file_of(kTwo, 15),
     "truncated: its header describes 16 bytes of data, 15 are there"},
    {"half_cut", file_of(kTwo, 0), "truncated: its header describes 16 bytes of data, 0 are there"},
    {"bytes_after_the_end", file_of(kTwo, 19), "3 bytes of data more"},
    {"header_is_garbage", file_of("{nonsense", 0), "not valid JSON"},
    {"header_is_a_list", file_of("[]", 0), "a list"},
    {"header_is_cut", file_of(kTwo.substr(0, 40), 16), "not valid JSON"},
    {"tensor_is_a_number", file_of(R"({"a":3})", 0), "a number"},
    {"deep_nesting", file_of(std::string(100000, '['), 0), "a list"},
    {"overlap",
     file_of(
         R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],)"
         R"("data_offsets":[4,12]}})",
         12),
     "tensor b overlaps"},
    {"same_bytes_twice",
     file_of(
         R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],)"
         R"("data_offsets":[0,8]}})",
         8),
     "overlaps"},
    {"hole_between_tensors",
     file_of(
         R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],)"
         R"("data_offsets":[6,10]}})",
         10),
     "bytes 4 to 6 before tensor b belong to no tensor"},
    {"hole_at_the_start", file_of(one(R"({"dtype":"U8","shape":[4],"data_offsets":[2,6]})"), 6),
     "bytes 0 to 2 before tensor a"},
    {"reversed_offsets", file_of(one(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"), 4),
     "reversed"},
    {"past_the_end", file_of(one(R"({"dtype":"U8","shape":[100],"data_offsets":[0,100]})"), 4),
     "describes 100 bytes of data, 4 are there"},
    {"offsets_near_2_to_64",
     file_of(
         one(R"({"dtype":"U8","shape":[8],"data_offsets":[18446744073709551608,18446744073709551615]})"),
         4),
     "needs 8 bytes, but its data_offsets give it 7"},
    {"negative_offset", file_of(one(R"({"dtype":"U8","shape":[4],"data_offsets":[-4,0]})"), 4),
     "a negative number"},
    {"fraction_in_shape", file_of(one(R"({"dtype":"U8","shape":[4.5],"data_offsets":[0,4]})"), 4),
     "a fraction"},
    {"shape_disagrees_with_bytes",
     file_of(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), 8),
     "F32 of [3] needs 12 bytes, but its data_offsets give it 8"},
    {"shape_product_overflows",
     file_of(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), 0),
     "overflows"},
    {"dimension_beyond_2_to_63",
     file_of(one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]})"), 0),
     "beyond 2^63"},
    {"nine_dimensions",
     file_of(one(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]})"), 1),
     "too many dimensions"},
    {"name_twice",
     file_of(
         R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],)"
         R"("data_offsets":[4,8]}})",
         8),
     "tensor a stands there twice"},
    {"field_twice",
     file_of(one(R"({"dtype":"U8","dtype":"F32","shape":[4],"data_offsets":[0,4]})"), 4),
     "has dtype twice"},
    {"no_dtype", file_of(one(R"({"shape":[4],"data_offsets":[0,4]})"), 4), "lacks dtype"},
    {"no_offsets", file_of(one(R"({"dtype":"U8","shape":[4]})"), 4), "lacks"},
    {"one_offset", file_of(one(R"({"dtype":"U8","shape":[4],"data_offsets":[0]})"), 4), "lacks"},
    {"three_offsets", file_of(one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4,8]})"), 4),
     "more than two"},
    {"unknown_field", file_of(one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1})"), 4),
     "unknown field \"x\""},
    {"dtype_is_a_number", file_of(one(R"({"dtype":7,"shape":[4],"data_offsets":[0,4]})"), 4),
     "a number"},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(safetensors_tests)

BOOST_DATA_TEST_CASE(damaged_file_is_refused_with_its_reason,
                     boost::unit_test::data::make(kDamages), damage) {
  const auto result = parse(damage.file);
  BOOST_REQUIRE(!result);
  BOOST_TEST((result.error().kind == ErrorKind::kDataLoss));
  BOOST_TEST(result.error().message.starts_with("model.safetensors"), result.error().message);
  BOOST_TEST(result.error().message.find(damage.message) != std::string::npos,
             result.error().message);
}

BOOST_AUTO_TEST_CASE(every_prefix_of_a_file_is_refused) {
  const std::string file = file_of(kTwo, 16);
  for (size_t n = 0; n < file.size(); ++n) {
    BOOST_TEST(!parse(std::string_view(file).substr(0, n)).has_value(),
               "prefix of " << n << " bytes");
  }
  BOOST_TEST(parse(file).has_value());
}

BOOST_AUTO_TEST_CASE(tensors_come_in_file_order_with_absolute_offsets) {
  const auto tensors = parse(file_of(R"({"__metadata__":{"format":"pt","x":"y"},)"
                                     R"("late":{"dtype":"F16","shape":[1,2],"data_offsets":[4,8]},)"
                                     R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[8,8]},)"
                                     R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                                     8));
  BOOST_REQUIRE_MESSAGE(tensors.has_value(), message_of(tensors));
  BOOST_REQUIRE_EQUAL(tensors->size(), 3U);
  const auto& scalar = tensors->at(0);
  const auto& late = tensors->at(1);
  BOOST_TEST(scalar.name == "scalar");
  BOOST_TEST(scalar.shape.empty());
  BOOST_TEST(late.name == "late");
  BOOST_TEST((late.dtype == DType::kF16));
  BOOST_TEST(late.begin == scalar.begin + 4);
  BOOST_TEST(tensors->at(2).bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(format_without_a_name_here_is_listed_but_has_no_dtype) {
  const auto tensors =
      parse(file_of(one(R"({"dtype":"F4_NEW","shape":[8],"data_offsets":[0,4]})"), 4));
  BOOST_REQUIRE(tensors.has_value());
  BOOST_TEST(!tensors->at(0).dtype.has_value());
  BOOST_TEST(tensors->at(0).dtype_text == "F4_NEW");
}

BOOST_AUTO_TEST_CASE(header_padded_with_spaces_is_read) {
  BOOST_TEST(parse(file_of(kTwo + "     ", 16)).has_value());
}

BOOST_AUTO_TEST_CASE(mapped_data_is_that_of_the_file_and_survives_release) {
  const TempDir dir;
  const auto path = dir.write("x.safetensors", file_of(kTwo, 16));
  const auto file = SafetensorsFile::open(path);
  BOOST_REQUIRE(file.has_value());
  const auto& b = file->tensors().at(1);
  BOOST_REQUIRE_EQUAL(file->data(b).size(), 8U);
  file->release(b);
  for (size_t i = 0; i < 8; ++i)
    BOOST_TEST(static_cast<int>(file->data(b)[i]) == static_cast<int>(i + 8));
  BOOST_TEST(file->hole_bytes(b) == 0U);
}

BOOST_AUTO_TEST_CASE(bytes_that_were_never_written_are_counted) {
  const TempDir dir;
  const size_t n = 1 << 20;
  const auto path =
      dir.write("x.safetensors",
                file_of(one(R"({"dtype":"U8","shape":[1048576],"data_offsets":[0,1048576]})"), 0));
  const auto header = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, header + n);
  const auto file = SafetensorsFile::open(path);
  BOOST_REQUIRE(file.has_value());
  const auto holes = file->hole_bytes(file->tensors().at(0));
  // A file system that knows no holes reports none; every other one nearly all of it.
  BOOST_TEST((holes == 0 || holes > n * 9 / 10));
}

BOOST_AUTO_TEST_CASE(missing_file_and_directory_are_errors_that_name_the_path) {
  const TempDir dir;
  const auto missing = SafetensorsFile::open(dir.path() / "none.safetensors");
  BOOST_REQUIRE(!missing);
  BOOST_TEST((missing.error().kind == ErrorKind::kNotFound));
  BOOST_TEST(missing.error().message.find("none.safetensors") != std::string::npos);
  const auto directory = SafetensorsFile::open(dir.path());
  BOOST_REQUIRE(!directory);
  BOOST_TEST(directory.error().message.find("not a regular file") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
