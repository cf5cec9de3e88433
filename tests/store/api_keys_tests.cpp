// Proves that keys are found again by their hash alone, that they end, and that files which are not
// ours stay as they are.
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "store/api_keys.h"
#include "store/database.h"
#include "store/store_fixture.h"

namespace hs::test {
namespace {

ApiKey wanted(const std::string& name, bool admin = false) {
  ApiKey key;
  key.name = name;
  key.admin = admin;
  key.concurrency_max = 2;
  key.per_minute_max = 60;
  return key;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct KeysFixture {
  StoreDir dir;
  std::string path = dir.file("folder/keys.db");
};

BOOST_FIXTURE_TEST_SUITE(api_keys_tests, KeysFixture)

BOOST_AUTO_TEST_CASE(without_a_file_there_are_no_keys) {
  const auto keys = read_keys(path);
  BOOST_TEST_REQUIRE(keys.has_value());
  BOOST_TEST(keys->empty());
  BOOST_TEST(stamp_of_keys(path).bytes == -1);
}

BOOST_AUTO_TEST_CASE(a_key_is_kept_with_its_limits_and_only_as_a_hash) {
  const auto made = create_key(path, wanted("lab", true), 1234);
  BOOST_TEST_REQUIRE(made.has_value());
  BOOST_TEST(made->key.size() == 46U);
  BOOST_TEST(made->key.starts_with("hs-"));
  const auto keys = read_keys(path);
  BOOST_TEST_REQUIRE(keys.has_value());
  BOOST_TEST_REQUIRE(keys->size() == 1U);
  const ApiKey& key = keys->front();
  BOOST_TEST(key.id == made->stored.id);
  BOOST_TEST(key.name == "lab");
  BOOST_TEST(key.admin);
  BOOST_TEST(key.concurrency_max == 2);
  BOOST_TEST(key.per_minute_max == 60);
  BOOST_TEST(key.created_ms == 1234);
  BOOST_TEST(key.is_good());
  BOOST_TEST((key.hash == hash_key(made->key)));
  BOOST_TEST(made->key.ends_with(key.last4));
  BOOST_TEST(bytes_of(path).find(made->key.substr(3, 20)) == std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_hash_is_sha_256) {
  // FIPS 180-2, "abc".
  const KeyHash hash = hash_key("abc");
  BOOST_TEST(hash[0] == 0xba);
  BOOST_TEST(hash[1] == 0x78);
  BOOST_TEST(hash[31] == 0xad);
}

BOOST_AUTO_TEST_CASE(keys_differ) {
  std::set<std::string> seen;
  for (int i = 0; i < 20; ++i) {
    const auto made = create_key(path, wanted("user-" + std::to_string(i)), 1);
    BOOST_TEST_REQUIRE(made.has_value());
    BOOST_TEST(seen.insert(made->key).second);
  }
  BOOST_TEST(read_keys(path)->size() == 20U);
}

BOOST_AUTO_TEST_CASE(others_cannot_read_the_file) {
  BOOST_TEST_REQUIRE(create_key(path, wanted("a"), 1).has_value());
  struct stat info{};
  BOOST_TEST_REQUIRE(::stat(path.c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 0007) == 0U);
}

BOOST_AUTO_TEST_CASE(a_revoked_key_is_kept_and_its_name_may_be_given_again) {
  BOOST_TEST_REQUIRE(create_key(path, wanted("a"), 1).has_value());
  const auto revoked = revoke_key(path, "a", 50);
  BOOST_TEST_REQUIRE(revoked.has_value());
  BOOST_TEST(!read_keys(path)->front().is_good());
  BOOST_TEST(revoke_key(path, "1", 99)->revoked_ms == 50);
  const auto again = create_key(path, wanted("a"), 60);
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST(again->stored.id == 2);
  BOOST_TEST(create_key(path, wanted("a"), 61).error().code == kKeyExists);
  // The name means the good one now; then the one revoked last.
  BOOST_TEST(revoke_key(path, "a", 70)->id == 2);
  BOOST_TEST(revoke_key(path, "a", 80)->revoked_ms == 70);
  BOOST_TEST(read_keys(path)->size() == 2U);
}

// As version 1 made it, with a key in use and a revoked one.
BOOST_AUTO_TEST_CASE(a_file_of_the_first_version_keeps_its_keys) {
  {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    auto db = Database::open(path, Database::Mode::kReadWrite, 0);
    BOOST_TEST_REQUIRE(db->run(R"sql(
      CREATE TABLE keys (
        id                  INTEGER PRIMARY KEY AUTOINCREMENT,
        name                TEXT NOT NULL UNIQUE,
        hash                TEXT NOT NULL UNIQUE,
        last4               TEXT NOT NULL,
        admin               INTEGER NOT NULL,
        concurrency_max     INTEGER NOT NULL,
        per_minute_max      INTEGER NOT NULL,
        created_ms          INTEGER NOT NULL,
        revoked_ms          INTEGER
      ) STRICT;
      INSERT INTO keys VALUES (3, 'lab', printf('%064d', 3), 'abcd', 1, 2, 60, 10, NULL);
      INSERT INTO keys VALUES (7, 'old', printf('%064d', 7), 'efgh', 0, 0, 0, 11, 12);
      PRAGMA user_version = 1;
      PRAGMA application_id = 0x48536B79;
    )sql")
                           .has_value());
  }
  const auto before = read_keys(path);
  BOOST_TEST_REQUIRE(before.has_value());
  BOOST_TEST(create_key(path, wanted("lab"), 20).error().code == kKeyExists);
  const auto made = create_key(path, wanted("old"), 21);
  BOOST_TEST_REQUIRE(made.has_value());
  BOOST_TEST(made->stored.id == 8);
  const auto after = read_keys(path);
  BOOST_TEST_REQUIRE(after->size() == 3U);
  for (size_t i = 0; i < 2; ++i) {
    BOOST_TEST(after->at(i).id == before->at(i).id);
    BOOST_TEST(after->at(i).name == before->at(i).name);
    BOOST_TEST((after->at(i).hash == before->at(i).hash));
    BOOST_TEST(after->at(i).admin == before->at(i).admin);
    BOOST_TEST(after->at(i).concurrency_max == before->at(i).concurrency_max);
    BOOST_TEST(after->at(i).revoked_ms == before->at(i).revoked_ms);
  }
}

BOOST_AUTO_TEST_CASE(a_key_that_is_not_there_cannot_be_revoked) {
  BOOST_TEST((revoke_key(path, "a", 1).error().kind == ErrorKind::kNotFound));
  BOOST_TEST(stamp_of_keys(path).bytes == -1);
  BOOST_TEST_REQUIRE(create_key(path, wanted("a"), 1).has_value());
  BOOST_TEST((revoke_key(path, "b", 1).error().kind == ErrorKind::kNotFound));
  BOOST_TEST((revoke_key(path, "2", 1).error().kind == ErrorKind::kNotFound));
}

BOOST_AUTO_TEST_CASE(names_are_short_plain_and_no_numbers) {
  for (const std::string& name : {std::string(), std::string("a b"), std::string("12"),
                                  std::string("a\n"), std::string(65, 'x')})
    BOOST_TEST((create_key(path, wanted(name), 1).error().kind == ErrorKind::kInvalidArgument));
  BOOST_TEST(create_key(path, wanted("연구실-1"), 1).has_value());
}

BOOST_AUTO_TEST_CASE(each_change_changes_the_stamp) {
  const KeyFileStamp none = stamp_of_keys(path);
  BOOST_TEST_REQUIRE(create_key(path, wanted("a"), 1).has_value());
  const KeyFileStamp first = stamp_of_keys(path);
  BOOST_TEST((first != none));
  BOOST_TEST_REQUIRE(revoke_key(path, "a", 2).has_value());
  BOOST_TEST((stamp_of_keys(path) != first));
}

BOOST_AUTO_TEST_CASE(another_programs_file_stays_as_it_is) {
  const std::string other = dir.file("other.db");
  {
    auto db = Database::open(other, Database::Mode::kReadWrite, 0);
    BOOST_TEST_REQUIRE(db->run("CREATE TABLE t (x)").has_value());
  }
  const std::string before = bytes_of(other);
  BOOST_TEST((read_keys(other).error().kind == ErrorKind::kInvalidArgument));
  BOOST_TEST((create_key(other, wanted("a"), 1).error().kind == ErrorKind::kInvalidArgument));
  BOOST_TEST(bytes_of(other) == before);
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_an_error_and_no_empty_one) {
  const std::string bad = dir.file("bad.db");
  std::ofstream(bad) << std::string(5000, 'x');
  BOOST_TEST(!read_keys(bad).has_value());
  BOOST_TEST(!create_key(bad, wanted("a"), 1).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs::test
