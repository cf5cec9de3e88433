// Where each choice of a request stands in the grammar that its text has to follow.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "grammar/grammar.h"

namespace hs {

class RequestGrammar {
 public:
  // `also`: a mask of the vocabulary's size that the client gave beside, or empty; it must outlive
  // this.
  RequestGrammar(std::shared_ptr<Grammar> grammar, int32_t n_choices,
                 const std::vector<uint32_t>& also);

  // Before the first token. Errors, here and of push(): kInvalidArgument where no token is left
  // that the client allows, kResourceExhausted where the grammar takes too much memory.
  Status start();
  // `token` was sampled for `choice`, from those that were allowed.
  Status push(int32_t choice, int32_t token);
  // Whether nothing may follow what the choice has.
  bool must_end(int32_t choice) const { return grammar_->must_end(place(choice).state); }
  // As SamplingRow::allowed, for the choice's next token.
  std::span<const uint32_t> allowed(int32_t choice) const;

 private:
  struct Place {
    Expr state = kNoText;
    std::shared_ptr<const TokenMask> mask;
    std::vector<uint32_t> both;  // mask and also_, where there is one
  };
  const Place& place(int32_t choice) const { return places_[static_cast<size_t>(choice)]; }
  Status find_mask(Place& place);

  std::shared_ptr<Grammar> grammar_;
  const std::vector<uint32_t>& also_;
  std::vector<Place> places_;
};

}  // namespace hs
