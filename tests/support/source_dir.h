// Where the sources are: golden files, the demo models and the examples are read from there.
#pragma once

#include <string>

namespace hs {

const std::string& source_dir();  // without a slash at its end

}  // namespace hs
