// Tells whether a way of copying between two devices works, by copying patterns and looking at all
// that stands around them afterwards.
#pragma once

#include <cstddef>
#include <span>

#include "base/function_ref.h"
#include "base/status.h"
#include "device/device.h"

namespace hs {

// Pieces of a byte to several chunks at odd addresses, alone and many at once, each a pattern of
// its own. chunk_bytes: of the ring that copies may go through. Takes about 4 * chunk_bytes of each
// device and three times that of the host while it runs.
// Errors: kDataLoss when a pattern arrives damaged, a byte beside it changes, or a device computes
// another checksum than the host; those of the devices and of copy().
Status check_link(Device& from, Device& to, size_t chunk_bytes,
                  FunctionRef<Status(std::span<const CopyRun> runs)> copy);

}  // namespace hs
