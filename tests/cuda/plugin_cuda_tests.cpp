// Proves that the plug-in as it ships opens, refuses other versions, and says in one line why there
// is no GPU, or lists those that there are.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>

#include "device/plugin_loader.h"
#include "support/results.h"
#include "support/source_dir.h"

namespace hs::test {
namespace {

std::string version_of_sources() {
  std::ifstream file(std::filesystem::path(source_dir()) / "VERSION");
  std::string version;
  std::getline(file, version);
  return version;
}

// In the build folder, one above this program's.
const std::filesystem::path kPlaces[] = {program_folder().parent_path() / "libhs-cuda.so"};

}  // namespace

BOOST_AUTO_TEST_SUITE(plugin_cuda_tests)

BOOST_AUTO_TEST_CASE(the_plug_in_opens_and_tells_of_gpus_or_of_none) {
  const auto plugin = open_cuda_plugin(kPlaces, version_of_sources());
  BOOST_REQUIRE_MESSAGE(plugin.has_value(), message_of(plugin));
  const auto devices = (*plugin)->list_devices();
  if (devices) {
    BOOST_TEST(!devices->empty());
    return;
  }
  const std::string& text = devices.error().message;
  BOOST_TEST_MESSAGE(text);
  BOOST_TEST(text.find('\n') == std::string::npos);
  BOOST_TEST((text.starts_with("no NVIDIA device") || text.starts_with("driver too old") ||
              text.starts_with("cuBLAS missing")));
  const auto made = (*plugin)->make_device({});
  BOOST_REQUIRE(!made.has_value());
  BOOST_TEST(made.error().message == text);
}

BOOST_AUTO_TEST_CASE(a_plug_in_of_another_version_is_refused) {
  const auto plugin = open_cuda_plugin(kPlaces, "0.0.0-other");
  BOOST_REQUIRE(!plugin.has_value());
  BOOST_TEST((plugin.error().kind == ErrorKind::kUnsupported));
  BOOST_TEST(plugin.error().message.find("is not of version 0.0.0-other") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
