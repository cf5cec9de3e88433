// Open files and connections: how many the process may have.
#pragma once

#include <cstddef>

#include "app/config.h"

namespace hs {

// Raises the limit of open files as far as the system lets this process; what it is then.
size_t raise_descriptor_limit();

// Connections at a time: what the settings ask for, or the queue, the batch and some more; and few
// enough that files, models and the log find descriptors beside them.
size_t connections_max(const Config& config, size_t descriptor_limit);

}  // namespace hs
