// The arithmetic of the fake cuBLASLt.
#pragma once

#include <library_types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hs::cuda_emu::blas {

// A column-major matrix in memory that can be read.
struct Matrix {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  size_t rows = 0;
  size_t cols = 0;
  size_t ld = 0;  // elements from one column to the next
};

size_t type_bytes(cudaDataType type);  // 0: a type that is not known here
// From the first element to behind the last.
size_t span_bytes(const Matrix& m);
float element(const void* data, cudaDataType type, size_t i);
void set_element(void* data, cudaDataType type, size_t i, float value);

// op(a) op(b) as rows of d's columns: result[col * rows + row]; sums in float32, in an order that
// depends on the inner size alone.
std::vector<float> product(const Matrix& a, bool transpose_a, const Matrix& b, bool transpose_b);

float gelu_tanh(float x);

}  // namespace hs::cuda_emu::blas
