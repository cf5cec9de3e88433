#include "device/plugin_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <system_error>

namespace hs {
namespace {

constexpr char kFile[] = "libhs-cuda.so";

}  // namespace

std::vector<std::filesystem::path> cuda_plugin_places(const std::filesystem::path& program) {
  return {program / kFile, (program / "../lib/heteroserve/backends" / kFile).lexically_normal(),
          (program / "../cuda" / kFile).lexically_normal()};
}

std::filesystem::path program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

Result<const CudaPlugin*> open_cuda_plugin(std::span<const std::filesystem::path> places,
                                           const std::string& version) {
  std::string looked;
  for (const auto& place : places) {
    std::error_code error;
    if (!std::filesystem::exists(place, error)) {
      looked += (looked.empty() ? "" : ", ") + place.parent_path().string();
      continue;
    }
    void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return fail(ErrorKind::kIo, fmt::format("the CUDA plug-in cannot be opened: {}", dlerror()));
    }
    const auto entry = reinterpret_cast<CudaPluginEntry>(dlsym(library, kCudaPluginSymbol));
    const CudaPlugin* const plugin =
        entry == nullptr ? nullptr : entry(kCudaPluginAbi, version.c_str());
    if (plugin != nullptr) return plugin;
    dlclose(library);
    return fail(ErrorKind::kUnsupported,
                fmt::format("the CUDA plug-in {} is not of version {}, the program's; install both "
                            "from one package or build both",
                            place.string(), version));
  }
  return fail(ErrorKind::kNotFound,
              fmt::format("the CUDA plug-in {} is not installed (looked in {}); install it, build "
                          "it with `make cuda-build`, or run with --device cpu",
                          kFile, looked));
}

}  // namespace hs
