// The program's own version.
#pragma once

#include <string_view>

namespace hs {

std::string_view version();  // from the file VERSION

}  // namespace hs
