// Proves what is said when the CUDA plug-in is not there, or is not one.
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "device/plugin_loader.h"
#include "support/temp_dir.h"

namespace hs::test {

BOOST_AUTO_TEST_SUITE(plugin_loader_tests)

BOOST_AUTO_TEST_CASE(it_is_looked_for_beside_the_program_and_in_the_package) {
  const auto places = cuda_plugin_places("/opt/heteroserve/bin");
  BOOST_REQUIRE_EQUAL(places.size(), 3U);
  BOOST_TEST(places[0] == "/opt/heteroserve/bin/libhs-cuda.so");
  BOOST_TEST(places[1] == "/opt/heteroserve/lib/heteroserve/backends/libhs-cuda.so");
  BOOST_TEST(places[2] == "/opt/heteroserve/cuda/libhs-cuda.so");
  BOOST_TEST(std::filesystem::is_directory(program_folder()));
}

BOOST_AUTO_TEST_CASE(without_a_file_the_error_says_where_it_was_looked_for_and_what_to_do) {
  const auto opened = open_cuda_plugin(cuda_plugin_places("/nowhere/bin"), "1");
  BOOST_REQUIRE(!opened.has_value());
  BOOST_TEST((opened.error().kind == ErrorKind::kNotFound));
  BOOST_TEST(opened.error().message ==
             "the CUDA plug-in libhs-cuda.so is not installed (looked in /nowhere/bin, "
             "/nowhere/lib/heteroserve/backends, /nowhere/cuda); install it, build it with `make "
             "cuda-build`, or run with --device cpu");
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_library_is_an_error_and_is_not_passed_over) {
  const TempDir dir;
  std::ofstream(dir.path() / "libhs-cuda.so") << "not a library";
  const auto opened = open_cuda_plugin(cuda_plugin_places(dir.path()), "1");
  BOOST_REQUIRE(!opened.has_value());
  BOOST_TEST((opened.error().kind == ErrorKind::kIo));
  BOOST_TEST(opened.error().message.starts_with("the CUDA plug-in cannot be opened: "));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
