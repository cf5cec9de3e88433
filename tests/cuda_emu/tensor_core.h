// ldmatrix and mma.sync.m16n8k16 with the register layouts of the PTX ISA (sections "ldmatrix" and
// "Matrix fragments for mma.m16n8k16").
#pragma once

#include <cstdint>
#include <source_location>

namespace hs::cuda_emu {

// Each lane gives the address of one 16-byte row in shared memory; lanes 8j .. 8j+7 those of matrix
// j. Lane l gets elements 2(l % 4) and 2(l % 4) + 1 of row l / 4 of each matrix, or of column l / 4
// when transposed.
void load_matrices(uint32_t (&to)[4], const void* row, bool transposed, std::source_location where);

// d (16 x 8, float32) += a (16 x 16, row-major) * b (16 x 8, column-major).
void multiply_tiles_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                         std::source_location where);
void multiply_tiles_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                        std::source_location where);

}  // namespace hs::cuda_emu
