#include "api/version.h"

namespace hs {

std::string_view version() {
  return HETEROSERVE_VERSION;
}

}  // namespace hs
