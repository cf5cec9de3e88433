// The store: what it lists and finds, that models in use stay, and what imports take, check and
// share.
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "hub/import.h"
#include "hub/model_store.h"
#include "hub/stub_hub.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs {
namespace {

namespace fs = std::filesystem;
using test::kCommit;

struct Fixture {
  test::TempDir dir;
  ModelStore store{dir.path() / "models"};
  ManualClock clock;

  fs::path checkpoint(const std::string& name) const {
    const fs::path folder = dir.path() / name;
    fs::create_directories(folder);
    for (const auto& [file, bytes] : test::tiny_checkpoint())
      std::ofstream(folder / file, std::ios::binary) << bytes;
    return folder;
  }
  // As huggingface_hub lays it out.
  fs::path cache() const {
    const fs::path repo = dir.path() / "hub/models--org--tiny";
    const fs::path snapshot = repo / "snapshots" / kCommit;
    fs::create_directories(snapshot);
    fs::create_directories(repo / "blobs");
    fs::create_directories(repo / "refs");
    std::ofstream(repo / "refs/main") << kCommit;
    for (const auto& [file, bytes] : test::tiny_checkpoint()) {
      const std::string hash =
          file.ends_with(".safetensors") ? test::sha256_of(bytes) : test::git_sha1_of(bytes);
      std::ofstream(repo / "blobs" / hash, std::ios::binary) << bytes;
      fs::create_symlink("../../blobs/" + hash, snapshot / file);
    }
    return dir.path() / "hub";
  }
  Result<StoredModel> add(const std::string& name, const std::string& folder = "source") {
    clock.advance_us(1'000'000);
    return import_model(store, checkpoint(folder), {.name = name}, clock);
  }
};

std::string code_of(const auto& result) {
  return result ? std::string() : result.error().code;
}

BOOST_FIXTURE_TEST_SUITE(model_store_tests, Fixture)

BOOST_AUTO_TEST_CASE(a_store_that_is_not_there_is_empty) {
  BOOST_TEST(store.list()->empty());
  BOOST_TEST(store.partials()->empty());
  BOOST_TEST(code_of(store.find("a/b")) == "model_not_stored");
  BOOST_TEST(store.space()->free_bytes > 0);
}

BOOST_AUTO_TEST_CASE(an_imported_folder_is_listed_by_its_name) {
  const auto model = import_model(store, checkpoint("my-model"), {}, clock);
  BOOST_REQUIRE_MESSAGE(model, test::message_of(model));
  BOOST_TEST(model->manifest.repo == "local/my-model");
  BOOST_TEST(model->manifest.commit.starts_with("local-"));
  BOOST_TEST(model->manifest.files.size() == 3U);
  BOOST_TEST(!fs::exists(model->path / "pytorch_model.bin"));
  const auto listed = store.list();
  BOOST_REQUIRE(listed->size() == 1U);
  BOOST_TEST(listed->front().id() == model->id());
  BOOST_TEST(listed->front().manifest.bytes() == model->manifest.bytes());
  BOOST_TEST(store.find("my-model")->id() == model->id());
  BOOST_TEST(store.partials()->empty());
  BOOST_TEST(import_model(store, dir.path() / "my-model", {}, clock)->id() == model->id());
  BOOST_TEST(store.list()->size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_copy_has_bytes_of_its_own) {
  const fs::path source = checkpoint("source");
  const auto model = import_model(store, source, {.name = "a/b", .copy = true}, clock);
  BOOST_REQUIRE(model);
  std::ofstream(source / "tokenizer.json", std::ios::binary) << "changed";
  BOOST_TEST(*read_file(model->path / "tokenizer.json", 100) == "{}");
}

BOOST_AUTO_TEST_CASE(a_cached_model_comes_through_its_links_with_its_commit) {
  const fs::path hub = cache();
  for (const fs::path& from : {hub, dir.path(), hub / "models--org--tiny",
                               hub / "models--org--tiny/snapshots" / kCommit}) {
    const auto model = import_model(store, from, {}, clock);
    BOOST_REQUIRE_MESSAGE(model, test::message_of(model));
    BOOST_TEST(model->id() == "org/tiny@" + kCommit);
    BOOST_TEST(!fs::is_symlink(model->path / "model.safetensors"));
    BOOST_TEST((*read_file(model->path / "model.safetensors", 1 << 20) ==
                test::tiny_checkpoint()["model.safetensors"]));
    BOOST_REQUIRE(store.remove(*model));
  }
}

BOOST_AUTO_TEST_CASE(damaged_files_are_not_imported) {
  const fs::path hub = cache();
  const fs::path blob =
      fs::canonical(hub / "models--org--tiny/snapshots" / kCommit / "tokenizer.json");
  std::ofstream(blob, std::ios::binary) << "[]";
  BOOST_TEST(code_of(import_model(store, hub, {}, clock)) == "checksum");
  const fs::path source = checkpoint("source");
  fs::resize_file(source / "model.safetensors", 1000);
  BOOST_TEST(!import_model(store, source, {}, clock));
  BOOST_TEST(store.list()->empty());
  BOOST_TEST(store.partials()->empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_model_is_told_as_what_it_lacks) {
  fs::create_directories(dir.path() / "empty");
  BOOST_TEST(code_of(import_model(store, dir.path() / "empty", {}, clock)) == "not_found");
  BOOST_TEST(code_of(import_model(store, dir.path() / "nowhere", {}, clock)) == "not_found");
  const fs::path source = checkpoint("source");
  fs::remove(source / "tokenizer.json");
  BOOST_TEST(code_of(import_model(store, source, {}, clock)) == "not_runnable");
  BOOST_TEST(code_of(import_model(store, checkpoint("other"), {.name = "../x"}, clock)) ==
             "invalid_model_name");
}

BOOST_AUTO_TEST_CASE(names_find_the_newest_and_revisions_the_one_meant) {
  const auto old_one = add("org/tiny", "first");
  std::ofstream(dir.path() / "first/tokenizer.json") << "{ }";
  clock.advance_us(1'000'000);
  const auto new_one = import_model(store, dir.path() / "first", {.name = "org/tiny"}, clock);
  BOOST_REQUIRE((old_one && new_one));
  BOOST_TEST(store.find("org/tiny")->id() == new_one->id());
  BOOST_TEST(store.find("tiny")->id() == new_one->id());
  BOOST_TEST(store.find(old_one->id())->id() == old_one->id());
  BOOST_TEST(code_of(store.find("org/tiny@nothing")) == "model_not_stored");
  BOOST_REQUIRE(add("other/tiny", "second"));
  BOOST_TEST(code_of(store.find("tiny")) == "ambiguous_model");
  BOOST_TEST(store.find("other/tiny").has_value());
}

BOOST_AUTO_TEST_CASE(a_model_that_is_held_is_not_removed) {
  const auto model = add("org/tiny");
  BOOST_REQUIRE(model);
  {
    const auto first = store.hold(*model);
    const auto second = store.hold(*model);
    BOOST_REQUIRE((first && second));
    BOOST_TEST(code_of(store.remove(*model)) == "model_in_use");
    BOOST_TEST(store.find("org/tiny").has_value());
  }
  const auto removed = store.remove(*model);
  BOOST_REQUIRE_MESSAGE(removed, test::message_of(removed));
  BOOST_TEST(!fs::exists(store.root() / "org"));
  BOOST_TEST(store.list()->empty());
  BOOST_TEST(store.partials()->empty());
}

BOOST_AUTO_TEST_CASE(partial_models_are_listed_and_removed) {
  for (const char* name : {"a", "b"}) {
    const auto staging = store.stage({"org", name, ""}, kCommit);
    BOOST_REQUIRE(staging);
    std::ofstream(staging->path / "model.safetensors.part") << "12345";
  }
  BOOST_REQUIRE(store.partials()->size() == 2U);
  BOOST_TEST(store.partials()->front().repo == "org/a");
  BOOST_TEST(store.partials()->front().bytes == 5);
  BOOST_TEST(*store.remove_partials("org/b") == 1);
  BOOST_TEST(store.partials()->size() == 1U);
  BOOST_TEST(*store.remove_partials("") == 1);
  BOOST_TEST(store.partials()->empty());
}

BOOST_AUTO_TEST_CASE(folders_with_a_damaged_manifest_are_left_out) {
  const auto model = add("org/tiny");
  BOOST_REQUIRE(model);
  const std::string good = manifest_json(model->manifest);
  BOOST_TEST(parse_manifest(good, "x")->commit == model->manifest.commit);
  for (std::string bad :
       {std::string("{"), std::string("{}"), std::string(), good.substr(0, good.size() / 2)}) {
    std::ofstream(model->path / kManifestName) << bad;
    BOOST_TEST(store.list()->empty());
  }
  std::string moved = good;
  moved.replace(moved.find("org/tiny"), 8, "org/else");
  std::ofstream(model->path / kManifestName) << moved;
  BOOST_TEST(store.list()->empty());
  for (const char* path : {"../x", "a/b", ".hidden", ""}) {
    std::string outside = good;
    outside.replace(outside.find("config.json"), 11, path);
    BOOST_TEST(!parse_manifest(outside, "x"), path);
  }
}

BOOST_AUTO_TEST_CASE(names_are_safe_as_folders) {
  BOOST_TEST(parse_model_ref("Qwen/Qwen2.5-VL-7B-Instruct")->name == "Qwen2.5-VL-7B-Instruct");
  BOOST_TEST(parse_model_ref("a/b@refs/pr/1")->revision == "refs/pr/1");
  for (const char* bad : {"", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/.b", "a b/c", "a/b@",
                          "a/b@../x", "a/b@/x", "a/b@x/", "a/-b", "a/b\n", "a/b@-x", "a/b@x@y"})
    BOOST_TEST(!parse_model_ref(bad), bad);
  BOOST_TEST(!parse_model_ref("a/" + std::string(200, 'x')));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
