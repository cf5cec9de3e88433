// The installed service's files, for the commands that an administrator runs beside it.
#pragma once

#include <string>

#include "base/status.h"

namespace hs {

// Its state directory when this user may enter it, else "".
std::string service_state();

// Root goes on as the owner of the directory, for good, so that no file there becomes root's and
// is lost to the service. Other users, and "", stay as they are.
Status act_as_owner(const std::string& directory);

}  // namespace hs
