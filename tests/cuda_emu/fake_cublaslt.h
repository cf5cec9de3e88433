// The part of cuBLASLt that the fake CUDA runtime has, as cublasLt.h declares it: numbers and
// signatures are the same, pointers to opaque structures are void*. No header of cuBLAS is needed.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>

namespace hs::cuda_emu::blas {

enum Status {  // cublasStatus_t
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15
};
constexpr int kCompute32F = 68;  // cublasComputeType_t
enum Epilogue : uint32_t { kDefault = 1, kRelu = 2, kBias = 4, kGelu = 32 };
enum DescAttribute { kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8, kBiasType = 26 };
enum PreferenceAttribute {
  kWorkspaceBytesMax = 1,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8
};

struct Algorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct Heuristic {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

}  // namespace hs::cuda_emu::blas

extern "C" {
size_t cublasLtGetVersion();
int cublasLtCreate(void** handle);
int cublasLtDestroy(void* handle);
int cublasLtMatmulDescCreate(void** desc, int compute_type, int scale_type);
int cublasLtMatmulDescDestroy(void* desc);
int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes);
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutDestroy(void* layout);
int cublasLtMatmulPreferenceCreate(void** preference);
int cublasLtMatmulPreferenceDestroy(void* preference);
int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                         size_t bytes);
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* desc, void* a, void* b, void* c, void* d,
                                   void* preference, int n_wanted,
                                   hs::cuda_emu::blas::Heuristic* results, int* n_results);
int cublasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                   void* d, void* d_layout, const hs::cuda_emu::blas::Algorithm* algorithm,
                   void* workspace, size_t workspace_bytes, cudaStream_t stream);
}
