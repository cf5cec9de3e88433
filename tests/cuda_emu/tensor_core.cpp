#include "cuda_emu/tensor_core.h"

#include <bit>
#include <cstring>

#include "cuda_emu/built_in.h"
#include "cuda_emu/half.h"

namespace hs::cuda_emu {
namespace {

struct Row {
  const std::byte* at;
};

void load_rows(Lanes& lanes) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto row = get_lane<Row>(lanes.in[matrix * 8 + lane / 4]);
      std::memcpy(lanes.out[lane] + matrix * 4, row.at + lane % 4 * 4, 4);
    }
  }
}

void load_columns(Lanes& lanes) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      for (int i = 0; i < 2; ++i) {
        const auto row = get_lane<Row>(lanes.in[matrix * 8 + lane % 4 * 2 + i]);
        std::memcpy(lanes.out[lane] + matrix * 4 + i * 2, row.at + lane / 4 * 2, 2);
      }
    }
  }
}

// The registers a lane brings.
struct Fragments {
  uint16_t a[4][2];
  uint16_t b[2][2];
};

// Lane 4g + t holds, of a: rows g and g + 8 (registers 0, 2 and 1, 3), columns 2t, 2t + 1 (0, 1)
// and 2t + 8, 2t + 9 (2, 3); of b: column g, rows 2t, 2t + 1 and 2t + 8, 2t + 9; of d: rows g (0,
// 1) and g + 8 (2, 3), columns 2t, 2t + 1.
template <float (*kToFloat)(uint16_t)>
void multiply(Lanes& lanes) {
  float a[16][16], b[8][16];
  for (int lane = 0; lane < 32; ++lane) {
    const auto f = get_lane<Fragments>(lanes.in[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int reg = 0; reg < 4; ++reg) {
      for (int i = 0; i < 2; ++i) {
        a[g + reg % 2 * 8][2 * t + reg / 2 * 8 + i] = kToFloat(f.a[reg][i]);
      }
    }
    for (int reg = 0; reg < 2; ++reg) {
      for (int i = 0; i < 2; ++i) b[g][2 * t + reg * 8 + i] = kToFloat(f.b[reg][i]);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 4; ++reg) {
      const int row = lane / 4 + reg / 2 * 8, col = lane % 4 * 2 + reg % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[col][k];
      std::memcpy(lanes.out[lane] + static_cast<size_t>(reg) * sizeof sum, &sum, sizeof sum);
    }
  }
}

void multiply_tiles(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                    void (*combine)(Lanes&), std::source_location where) {
  const uint32_t in[6] = {a[0], a[1], a[2], a[3], b0, b1};
  float sums[4];
  meet(0xFFFFFFFF, "mma", in, sizeof in, sums, sizeof sums, combine, where);
  for (int i = 0; i < 4; ++i) d[i] += sums[i];
}

}  // namespace

void load_matrices(uint32_t (&to)[4], const void* row, bool transposed,
                   std::source_location where) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
    fail("ldmatrix of a row that is not 16-byte aligned", where);
  }
  const Row in{static_cast<const std::byte*>(row)};
  meet(0xFFFFFFFF, transposed ? "ldmatrix.trans" : "ldmatrix", &in, sizeof in, to, sizeof to,
       transposed ? load_columns : load_rows, where);
}

void multiply_tiles_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                         std::source_location where) {
  multiply_tiles(d, a, b0, b1, multiply<bf16_to_float>, where);
}

void multiply_tiles_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                        std::source_location where) {
  multiply_tiles(d, a, b0, b1, multiply<f16_to_float>, where);
}

}  // namespace hs::cuda_emu
