// Finding and opening the CUDA plug-in.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "device/cuda_plugin.h"

namespace hs {

// Where libhs-cuda.so may be, for a program in the folder `program`: beside it, in
// ../lib/heteroserve/backends, and in the build folder of the CUDA preset beside the program's.
std::vector<std::filesystem::path> cuda_plugin_places(const std::filesystem::path& program);
// The folder of the running program; empty when the system does not tell.
std::filesystem::path program_folder();

// Opens the first of the places where a file stands; it is never closed. Any thread. Errors, one
// line each: kNotFound when there is none, kUnsupported when it is of another version, kIo what the
// system's loader says.
Result<const CudaPlugin*> open_cuda_plugin(std::span<const std::filesystem::path> places,
                                           const std::string& version);

}  // namespace hs
