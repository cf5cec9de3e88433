// Proves what `serve` and `run` share: a model's name is one and the same however its folder is
// reached, and the load says how far it is.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "app/served_engine.h"
#include "base/clock.h"
#include "support/temp_dir.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(served_engine_tests)

BOOST_AUTO_TEST_CASE(a_model_has_one_name_however_its_folder_is_reached) {
  const test::TempDir dir;
  std::filesystem::create_directory(dir.path() / "tiny-1b");
  std::filesystem::create_directory_symlink("tiny-1b", dir.path() / "current");
  for (const char* spelling :
       {"tiny-1b", "tiny-1b/", "tiny-1b/.", "./current", "current/", "current/../tiny-1b//"}) {
    Config config;
    config.model = (dir.path() / spelling).string();
    BOOST_TEST(served_names(config) == std::vector<std::string>{"tiny-1b"},
               boost::test_tools::per_element());
  }
  Config config;
  config.model = dir.path() / "current";
  config.served_model_names = {"a", "b"};
  BOOST_TEST(served_names(config) == (std::vector<std::string>{"a", "b"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_loaded_engine_has_the_same_name_and_its_load_told_how_far_it_was) {
  const test::TempDir dir;
  std::filesystem::create_directory_symlink(HS_SOURCE_DIR "/models/demo/llava",
                                            dir.path() / "link");
  Config config;
  config.model = (dir.path() / "link").string();
  config.threads = 1;
  config.max_num_seqs = 1;
  const SystemClock clock;
  std::vector<size_t> done;
  size_t bytes_total = 0;
  const auto loaded = load_engine(
      config, clock, [] {},
      [&](size_t bytes_done, size_t total) {
        BOOST_TEST((bytes_total == 0 || total == bytes_total));
        bytes_total = total;
        done.push_back(bytes_done);
      });
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  BOOST_TEST((*loaded)->served->names == served_names(config), boost::test_tools::per_element());
  BOOST_REQUIRE(done.size() > 10U);
  BOOST_TEST(std::ranges::is_sorted(done));
  BOOST_TEST(done.front() < bytes_total / 2);
  BOOST_TEST(done.back() > bytes_total / 10 * 9);
  BOOST_TEST(done.back() <= bytes_total);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
