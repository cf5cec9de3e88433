#include "device/cuda/blas_lt_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#if defined(HS_CUDA_EMU)
// The emulator's: linked, not opened. The types of pointers to opaque structures do not matter.
extern "C" {
int cublasLtCreate(void**);
int cublasLtDestroy(void*);
size_t cublasLtGetVersion();
int cublasLtMatmulDescCreate(void**, int, int);
int cublasLtMatmulDescDestroy(void*);
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t);
int cublasLtMatrixLayoutCreate(void**, int, uint64_t, uint64_t, int64_t);
int cublasLtMatrixLayoutDestroy(void*);
int cublasLtMatmulPreferenceCreate(void**);
int cublasLtMatmulPreferenceDestroy(void*);
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t);
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int,
                                   hs::cuda::BlasLtHeuristic*, int*);
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*,
                   const void*, void*, void*, void*, const hs::cuda::BlasLtAlgorithm*, void*,
                   size_t, cudaStream_t);
}
#endif

namespace hs::cuda {

std::string_view blas_lt_status_name(int status) {
  switch (status) {
    case 0:
      return "CUBLAS_STATUS_SUCCESS";
    case 1:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case 7:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case 8:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case 11:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case 13:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case 15:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case 16:
      return "CUBLAS_STATUS_LICENSE_ERROR";
    default:
      return "an unknown cuBLAS status";
  }
}

#if defined(HS_CUDA_EMU)

Result<const BlasLtApi*> load_blas_lt() {
  static const BlasLtApi api = {
      .create = cublasLtCreate,
      .destroy = cublasLtDestroy,
      .get_version = cublasLtGetVersion,
      .desc_create = cublasLtMatmulDescCreate,
      .desc_destroy = cublasLtMatmulDescDestroy,
      .desc_set = cublasLtMatmulDescSetAttribute,
      .layout_create = cublasLtMatrixLayoutCreate,
      .layout_destroy = cublasLtMatrixLayoutDestroy,
      .preference_create = cublasLtMatmulPreferenceCreate,
      .preference_destroy = cublasLtMatmulPreferenceDestroy,
      .preference_set = cublasLtMatmulPreferenceSetAttribute,
      .heuristic = cublasLtMatmulAlgoGetHeuristic,
      .matmul = cublasLtMatmul,
  };
  return &api;
}

#else

namespace {

constexpr int kMajor = CUDART_VERSION / 1000;

// Where the library may be; the loader's own places come first.
std::string candidates(int index) {
  const std::string file = fmt::format("libcublasLt.so.{}", kMajor);
  switch (index) {
    case 0:
      return file;
    case 1:
      return "/usr/local/cuda/lib64/" + file;
    case 2:
      return fmt::format("/usr/local/cuda-{}/lib64/{}", kMajor, file);
    case 3:
      return fmt::format("/usr/lib/heteroserve/nvidia/cu{}/lib/{}", kMajor, file);
    default:
      return {};
  }
}

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, BlasLtApi& api) {
  return find(library, "cublasLtCreate", api.create) &&
         find(library, "cublasLtDestroy", api.destroy) &&
         find(library, "cublasLtGetVersion", api.get_version) &&
         find(library, "cublasLtMatmulDescCreate", api.desc_create) &&
         find(library, "cublasLtMatmulDescDestroy", api.desc_destroy) &&
         find(library, "cublasLtMatmulDescSetAttribute", api.desc_set) &&
         find(library, "cublasLtMatrixLayoutCreate", api.layout_create) &&
         find(library, "cublasLtMatrixLayoutDestroy", api.layout_destroy) &&
         find(library, "cublasLtMatmulPreferenceCreate", api.preference_create) &&
         find(library, "cublasLtMatmulPreferenceDestroy", api.preference_destroy) &&
         find(library, "cublasLtMatmulPreferenceSetAttribute", api.preference_set) &&
         find(library, "cublasLtMatmulAlgoGetHeuristic", api.heuristic) &&
         find(library, "cublasLtMatmul", api.matmul);
}

// The library is never closed.
Result<BlasLtApi> open_blas_lt() {
  std::string tried;
  for (int i = 0; !candidates(i).empty(); ++i) {
    void* const library = dlopen(candidates(i).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      if (tried.empty()) tried = dlerror();
      continue;
    }
    BlasLtApi api;
    if (find_all(library, api)) return api;
    tried = candidates(i) + " lacks functions that are needed";
    dlclose(library);
  }
  return fail(ErrorKind::kNotFound,
              fmt::format("cuBLAS missing: libcublasLt.so.{0} cannot be opened ({1}); install "
                          "CUDA {0}'s cuBLAS (Debian, Ubuntu: apt install libcublas-{0}-0; "
                          "Python: pip install nvidia-cublas and set LD_LIBRARY_PATH to its "
                          "lib folder)",
                          kMajor, tried));
}

}  // namespace

Result<const BlasLtApi*> load_blas_lt() {
  static const Result<BlasLtApi> api = open_blas_lt();
  if (!api) return std::unexpected(api.error());
  return &*api;
}

#endif

}  // namespace hs::cuda
