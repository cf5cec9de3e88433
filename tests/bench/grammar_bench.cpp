// What constrained decoding costs: hs_bench_grammar TOKENIZER_DIR.
//
// For each language: the time to make it, to prepare masks, and of a step (the mask of the state
// and the state after a token) over random texts, the first time that a state is seen and again.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "text/tokenizer.h"

namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Steps {
  std::vector<double> first, again;
};

// Tokens are drawn by their shortness: a text of long random strings would never end.
void draw_text(hs::Grammar& grammar, const hs::TokenTrie& vocabulary, std::mt19937& random,
               std::vector<double>& times) {
  hs::Expr state = grammar.start();
  for (int i = 0; i < 300 && !grammar.must_end(state); ++i) {
    const auto started = Clock::now();
    const auto mask = grammar.mask(state);
    double time_us = us_since(started);
    if (!mask) return;
    int32_t chosen = -1;
    for (int tries = 0; tries < 20'000; ++tries) {
      const auto id =
          static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary.vocabulary_size()));
      if (!(*mask)->has(id) || vocabulary.token_bytes(id).empty()) continue;
      if (chosen < 0 || vocabulary.token_bytes(id).size() < vocabulary.token_bytes(chosen).size())
        chosen = id;
    }
    for (int32_t id = 0; chosen < 0 && id < vocabulary.vocabulary_size(); ++id) {
      if ((*mask)->has(id) && !vocabulary.token_bytes(id).empty()) chosen = id;
    }
    if (chosen < 0) return;
    const auto stepped = Clock::now();
    state = grammar.after(state, chosen);
    times.push_back(time_us + us_since(stepped));
  }
}

void print(std::string_view name, std::vector<double>& times) {
  if (times.empty()) return;
  std::ranges::sort(times);
  fmt::print("  {:18} p50 {:8.1f} us, p99 {:8.1f} us, most {:8.1f} us, {} steps\n", name,
             times[times.size() / 2], times[times.size() * 99 / 100], times.back(), times.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: hs_bench_grammar TOKENIZER_DIR\n");
    return 2;
  }
  const auto tokenizer = hs::Tokenizer::load(argv[1]);
  if (!tokenizer) {
    fmt::print(stderr, "{}\n", tokenizer.error().message);
    return 1;
  }
  std::vector<std::string> bytes;
  for (int32_t id = 0; id < (*tokenizer)->size(); ++id)
    bytes.push_back((*tokenizer)->is_special(id) ? std::string() : (*tokenizer)->token_bytes(id));
  auto started = Clock::now();
  const auto vocabulary = std::make_shared<hs::TokenTrie>(bytes);
  fmt::print("{} tokens, {} nodes, trie made in {:.0f} ms\n", bytes.size(),
             vocabulary->nodes().size(), us_since(started) / 1e3);
  const std::pair<hs::Grammar::Language, std::string> languages[] = {
      {hs::Grammar::Language::kJsonObject, ""},
      {hs::Grammar::Language::kJsonSchema,
       R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
           "tags":{"type":"array","items":{"type":"string"}},"address":{"type":"object","properties":{"street":{"type":"string","maxLength":40},
           "zip":{"type":"string","pattern":"^[0-9]{5}$"}},"required":["street","zip"]}},"required":["name","age","tags","address"]})"},
      {hs::Grammar::Language::kRegex, "(\\w+ ){3,10}\\d{4}-\\d\\d"},
      {hs::Grammar::Language::kChoice, R"(["positive","negative","neutral"])"},
  };
  const char* names[] = {"any JSON object", "JSON Schema", "pattern", "choice"};
  for (size_t i = 0; i < std::size(languages); ++i) {
    std::mt19937 random(7);
    started = Clock::now();
    const auto grammar =
        hs::Grammar::make(vocabulary, {}, languages[i].first, languages[i].second, false);
    if (!grammar) {
      fmt::print(stderr, "{}\n", grammar.error().message);
      return 1;
    }
    const double made_us = us_since(started);
    started = Clock::now();
    (*grammar)->prepare(500'000);
    fmt::print("{}: made in {:.2f} ms, prepared in {:.1f} ms, {:.1f} MiB\n", names[i],
               made_us / 1e3, us_since(started) / 1e3,
               static_cast<double>((*grammar)->bytes()) / (1 << 20));
    Steps steps;
    for (int k = 0; k < 5; ++k) draw_text(**grammar, *vocabulary, random, steps.first);
    std::mt19937 same(7);
    for (int k = 0; k < 5; ++k) draw_text(**grammar, *vocabulary, same, steps.again);
    print("first time", steps.first);
    print("again", steps.again);
  }
  return 0;
}
