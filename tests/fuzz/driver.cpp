// Runs a fuzz target without a fuzzer: every file of its corpus, then random mutations of them.
//
//   fuzz_NAME CORPUS_DIR [--mutations N] [--seed N]
//
// With clang the same targets are linked with libFuzzer instead (tests/fuzz/run.sh); this driver
// lets every build, the sanitizer builds above all, put hostile bytes through every parser. The
// seed is printed and repeats the run.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;
constexpr size_t kBytesMax = 1 << 16;

std::vector<Bytes> read_corpus(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error))
    if (entry.is_regular_file()) paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<Bytes> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) corpus.push_back({'{', '}'});
  return corpus;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  Bytes mutate(const std::vector<Bytes>& corpus) {
    Bytes bytes = corpus[below(corpus.size())];
    const size_t rounds = 1 + below(6);
    for (size_t i = 0; i < rounds; ++i) step(bytes, corpus);
    if (bytes.size() > kBytesMax) bytes.resize(kBytesMax);
    return bytes;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }

  void step(Bytes& bytes, const std::vector<Bytes>& corpus) {
    static constexpr uint8_t kSpecial[] = {0,   1,   0x7F, 0x80, 0xFF, '{',
                                           '[', '"', '\\', '%',  '<',  '\n'};
    const size_t at = below(bytes.size());
    const auto where = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(7)) {
      case 0:
        if (!bytes.empty()) *where = static_cast<uint8_t>(*where ^ (1U << below(8)));
        break;
      case 1:
        if (!bytes.empty()) *where = kSpecial[below(std::size(kSpecial))];
        break;
      case 2:
        bytes.insert(where, static_cast<uint8_t>(random_()));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        if (!bytes.empty())
          bytes.erase(where, where + static_cast<std::ptrdiff_t>(
                                         1 + below(std::min<size_t>(bytes.size() - at, 16))));
        break;
      case 5: {  // a piece of another file
        const Bytes& other = corpus[below(corpus.size())];
        const size_t from = below(other.size());
        const size_t length = below(std::min<size_t>(other.size() - from, 64) + 1);
        const Bytes piece(other.begin() + static_cast<std::ptrdiff_t>(from),
                          other.begin() + static_cast<std::ptrdiff_t>(from + length));
        bytes.insert(where, piece.begin(), piece.end());
        break;
      }
      default: {  // a number somewhere near a limit
        static constexpr std::string_view kNumbers[] = {"-1", "0", "4294967296",
                                                        "9223372036854775808", "1e400"};
        const std::string_view number = kNumbers[below(std::size(kNumbers))];
        bytes.insert(where, number.begin(), number.end());
      }
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string dir = ".";
  uint64_t mutations = 2000;
  uint64_t seed = std::random_device()();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--mutations") == 0 && i + 1 < argc) {
      mutations = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      dir = argv[i];
    }
  }
  const std::vector<Bytes> corpus = read_corpus(dir);
  std::printf("%s: %zu files, %llu mutations, seed %llu\n", argv[0], corpus.size(),
              static_cast<unsigned long long>(mutations), static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  for (const Bytes& bytes : corpus) LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  Mutator mutator(seed);
  for (uint64_t i = 0; i < mutations; ++i) {
    const Bytes bytes = mutator.mutate(corpus);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}
