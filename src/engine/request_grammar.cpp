#include "engine/request_grammar.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace hs {

RequestGrammar::RequestGrammar(std::shared_ptr<Grammar> grammar, int32_t n_choices,
                               const std::vector<uint32_t>& also)
    : grammar_(std::move(grammar)), also_(also), places_(static_cast<size_t>(n_choices)) {}

Status RequestGrammar::start() {
  for (Place& place : places_) {
    place.state = grammar_->start();
    if (const Status found = find_mask(place); !found) return found;
  }
  return {};
}

Status RequestGrammar::push(int32_t choice, int32_t token) {
  Place& place = places_[static_cast<size_t>(choice)];
  place.state = grammar_->after(place.state, token);
  HS_CHECK(place.state != kNoText);  // only allowed tokens are sampled
  return find_mask(place);
}

Status RequestGrammar::find_mask(Place& place) {
  Result<std::shared_ptr<const TokenMask>> mask = grammar_->mask(place.state);
  if (!mask) return std::unexpected(mask.error());
  place.mask = *std::move(mask);
  if (!also_.empty()) {
    HS_CHECK_EQ(also_.size(), place.mask->words.size());
    place.both.resize(also_.size());
    std::ranges::transform(also_, place.mask->words, place.both.begin(), std::bit_and());
  }
  const std::vector<uint32_t>& words = also_.empty() ? place.mask->words : place.both;
  const bool some = std::ranges::any_of(words, [](uint32_t word) { return word != 0; });
  if (!some && !grammar_->must_end(place.state)) {
    return fail(ErrorKind::kInvalidArgument,
                "No token that is allowed goes on with a text of the requested format.",
                "unsatisfiable_format");
  }
  return {};
}

std::span<const uint32_t> RequestGrammar::allowed(int32_t choice) const {
  const Place& its = place(choice);
  return also_.empty() ? std::span(its.mask->words) : std::span(its.both);
}

}  // namespace hs
