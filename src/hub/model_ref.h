// How models are named: ORG/NAME, as on Hugging Face, with @REVISION where one is meant.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace hs {

struct ModelRef {
  std::string org;
  std::string name;
  std::string revision;  // a branch, tag or commit; "" = the newest that there is

  std::string repo() const { return org + '/' + name; }
};

// Every part is safe as one name of a folder, but for the revision, which may have slashes.
// kInvalidArgument "invalid_model_name".
Result<ModelRef> parse_model_ref(std::string_view text);

}  // namespace hs
