#include "support/source_dir.h"

namespace hs {

const std::string& source_dir() {
  static const std::string dir = HS_SOURCE_DIR;
  return dir;
}

}  // namespace hs
