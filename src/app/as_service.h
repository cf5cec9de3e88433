// `doctor --as-service`: a command of this program inside the installed service's own sandbox, as
// its user and with its environment, by systemd-run.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

// What `systemctl cat` says of a unit as systemd-run's arguments: each setting of its [Service]
// sections as "-p", "Key=Value", but for those about starting, stopping and watching it.
std::vector<std::string> sandbox_arguments(std::string_view unit);

// Replaces this process: it comes back only with the reason why not. `arguments` as main's, with
// the program's name left out and without --as-service.
Status run_as_service(std::span<const std::string> arguments);

}  // namespace hs
