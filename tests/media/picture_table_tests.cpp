// The table of docs/pictures.md is true: each file it names gives the RGB values it states. And one
// picture reaches both families' models alike from every container that keeps pixels.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <set>
#include <sstream>
#include <utility>

#include "media/image.h"
#include "media/patterns.h"
#include "media/qwen_preprocess.h"

using namespace hs;
using namespace hs::test;

namespace {

struct TableRow {
  std::string file;
  int x = 0;
  int y = 0;
  int rgb[3] = {0, 0, 0};
  int tolerance = 0;
};

// "| text | `file` | x, y | R, G, B | how close |"; false for any other line.
bool read_row(const std::string& line, TableRow& row) {
  std::vector<std::string> cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(cell);
  if (cells.size() < 6 || cells[2].find('`') == std::string::npos) return false;
  const size_t open = cells[2].find('`') + 1;
  row.file = cells[2].substr(open, cells[2].find('`', open) - open);
  if (row.file.find('.') == std::string::npos) return false;
  row.tolerance = std::atoi(cells[5].c_str());
  return std::sscanf(cells[3].c_str(), "%d, %d", &row.x, &row.y) == 2 &&
         std::sscanf(cells[4].c_str(), "%d, %d, %d", &row.rgb[0], &row.rgb[1], &row.rgb[2]) == 3;
}

std::vector<TableRow> read_table() {
  std::ifstream docs(source_dir() + "/docs/pictures.md");
  std::vector<TableRow> rows;
  for (std::string line; std::getline(docs, line);)
    if (TableRow row; read_row(line, row)) rows.push_back(row);
  return rows;
}

Image decoded(const std::string& file) {
  auto image = decode_image(read_file(kGolden + "files/" + file), {});
  BOOST_REQUIRE_MESSAGE(image.has_value(), file);
  return *std::move(image);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(picture_table_tests)

BOOST_AUTO_TEST_CASE(every_row_of_the_published_table_holds) {
  const std::vector<TableRow> rows = read_table();
  BOOST_REQUIRE_GT(rows.size(), 50U);
  for (const TableRow& row : rows) {
    const Image image = decoded(row.file);
    BOOST_REQUIRE_MESSAGE(row.x < image.width && row.y < image.height, row.file);
    const size_t at = (static_cast<size_t>(row.y) * static_cast<size_t>(image.width) +
                       static_cast<size_t>(row.x)) *
                      3;
    for (size_t c = 0; c < 3; ++c)
      BOOST_TEST(std::abs(image.rgb[at + c] - row.rgb[c]) <= row.tolerance,
                 row.file << " channel " << c << ": " << int{image.rgb[at + c]}
                          << ", the table says " << row.rgb[c]);
  }
}

BOOST_AUTO_TEST_CASE(every_container_reaches_both_families_alike) {
  std::set<std::pair<uint64_t, uint64_t>> clip;
  std::set<std::pair<uint64_t, uint64_t>> qwen;
  for (const char* name :
       {"same.png", "same_interlaced.png", "same_16.png", "same_alpha.png", "same_palette.png",
        "same.webp", "same_animation.webp", "same.gif", "same.bmp", "same_palette.bmp"}) {
    const Image image = decoded(name);
    const ImagePatches a = clip_preprocess(image, {});
    clip.insert({a.content_hash[0], a.content_hash[1]});
    const auto b = qwen_preprocess(image, {});
    BOOST_REQUIRE(b.has_value());
    qwen.insert({b->content_hash[0], b->content_hash[1]});
  }
  BOOST_TEST(clip.size() == 1U);
  BOOST_TEST(qwen.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
