// The part of cuBLASLt's C interface that is used here, found at run time: the library is 0.6 GB
// and its header comes with it, so that neither building nor starting needs one. Names and numbers
// are those of cublasLt.h, the same since CUDA 11.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace hs::cuda {

struct BlasLtAlgorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8] = {};
};
struct BlasLtHeuristic {  // cublasLtMatmulHeuristicResult_t
  BlasLtAlgorithm algorithm;
  size_t workspace_bytes = 0;
  int status = 0;
  float waves = 0;
  int reserved[4] = {};
};

struct BlasLtApi {
  // Values of cublasStatus_t and the enumerations of attributes.
  static constexpr int kSuccess = 0;
  static constexpr int kNotSupported = 15;
  static constexpr int kCompute32F = 68;
  static constexpr int kTransposed = 1;
  enum DescAttribute { kTransA = 3, kEpilogue = 7, kBiasPointer = 8, kBiasDataType = 26 };
  enum PreferenceAttribute {
    kWorkspaceBytesMax = 1,
    kAlignmentA = 5,
    kAlignmentB = 6,
    kAlignmentC = 7,
    kAlignmentD = 8,
  };
  enum Epilogue : uint32_t { kDefault = 1, kRelu = 2, kBias = 4, kGelu = 32 };  // may be combined

  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  size_t (*get_version)() = nullptr;
  int (*desc_create)(void** desc, int compute_type, int scale_type) = nullptr;
  int (*desc_destroy)(void* desc) = nullptr;
  int (*desc_set)(void* desc, int attribute, const void* value, size_t bytes) = nullptr;
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t cols,
                       int64_t stride) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes) = nullptr;
  int (*heuristic)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference,
                   int n_wanted, BlasLtHeuristic* results, int* n_results) = nullptr;
  int (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout,
                const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                void* d, void* d_layout, const BlasLtAlgorithm* algorithm, void* workspace,
                size_t workspace_bytes, cudaStream_t stream) = nullptr;
};

std::string_view blas_lt_status_name(int status);

// Opens the library once a process; any thread. It is looked for by its name (the system's places),
// then in the usual homes of toolkits and of PyPI's wheel. kNotFound says what to install.
Result<const BlasLtApi*> load_blas_lt();

}  // namespace hs::cuda
