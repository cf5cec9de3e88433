// Where a picture goes from the tower's device to the language model's.
#pragma once

namespace hs {

// The projector makes rows of the language model's width from a tower's features. It runs on the
// tower's device (post: its rows are sent) or on the language model's (pre: the features are).
enum class CutChoice {
  kAuto,  // whichever has fewer bytes
  kPre,
  kPost,
};

}  // namespace hs
