#include "base/check.h"
#include "kernels/rope.h"
#include "kernels/row_work.h"
#include "kernels/simd_math.h"

namespace hs::HS_ISA_NS {
namespace {

constexpr int64_t kHalfHeadMax = 128;  // d_head is at most 256

// cos and sin of one token: a row of the tables, or one put together from the axes' rows (M-RoPE).
struct Angles {
  const float* cos = nullptr;  // (d_head / 2)
  const float* sin = nullptr;
  float mixed[2][kHalfHeadMax];
};

// Both kinds of params name tables, positions and sections alike.
template <typename Params>
void find_angles(const Params& p, int64_t n_tokens, int64_t half, int64_t token, Angles* angles) {
  if (p.n_axes == 1) {
    const int64_t row = p.positions[token] * half;
    angles->cos = p.cos + row;
    angles->sin = p.sin + row;
    return;
  }
  int64_t begin = 0;
  for (int axis = 0; axis < p.n_axes; ++axis) {
    const int64_t row = p.positions[axis * n_tokens + token] * half;
    const auto bytes = static_cast<size_t>(p.sections[axis]) * sizeof(float);
    std::memcpy(angles->mixed[0] + begin, p.cos + row + begin, bytes);
    std::memcpy(angles->mixed[1] + begin, p.sin + row + begin, bytes);
    begin += p.sections[axis];
  }
  angles->cos = angles->mixed[0];
  angles->sin = angles->mixed[1];
}

// y may equal x.
void rotate_head(const float* x, const Angles& angles, int64_t half, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const F32 a = load(x + i), b = load(x + half + i);
    const F32 c = load(angles.cos + i), s = load(angles.sin + i);
    store(y + i, a * c - b * s);
    store(y + half + i, b * c + a * s);
  }
  if (const int64_t n = half - i; n > 0) {
    const F32 a = load_n(x + i, n), b = load_n(x + half + i, n);
    const F32 c = load_n(angles.cos + i, n), s = load_n(angles.sin + i, n);
    store_n(y + i, a * c - b * s, n);
    store_n(y + half + i, b * c + a * s, n);
  }
}

void put_vector(const float* from, int64_t dim, DType dtype, void* cache, int64_t index) {
  if (dtype != DType::kBF16) {
    std::memcpy(static_cast<float*>(cache) + index, from, static_cast<size_t>(dim) * sizeof(float));
    return;
  }
  uint16_t* to = static_cast<uint16_t*>(cache) + index;
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) store_bf16(to + i, load(from + i));
  if (i < dim) store_bf16_n(to + i, load_n(from + i, dim - i), dim - i);
}

void rope_append_token(const RopeAppendParams& p, int64_t token) {
  const int64_t d = p.layout.d_head;
  const int32_t n_kv = p.layout.n_kv_heads;
  float* q = p.qkv + token * (p.n_heads + 2 * n_kv) * d;
  const float* k = q + p.n_heads * d;
  const float* v = k + n_kv * d;
  Angles angles;
  find_angles(p, p.n_tokens, d / 2, token, &angles);
  for (int32_t h = 0; h < p.n_heads; ++h) rotate_head(q + h * d, angles, d / 2, q + h * d);

  const int64_t block = p.slots[token] / p.layout.block_size;
  const auto slot = static_cast<int32_t>(p.slots[token] % p.layout.block_size);
  float rotated[2 * kHalfHeadMax];
  for (int32_t h = 0; h < n_kv; ++h) {
    rotate_head(k + h * d, angles, d / 2, rotated);
    put_vector(rotated, d, p.layout.dtype, p.kv, p.layout.key_index(block, h, slot));
    put_vector(v + h * d, d, p.layout.dtype, p.kv, p.layout.value_index(block, h, slot));
  }
}

}  // namespace

void rope_append_cpu(const RopeAppendParams& params, Team& team) {
  HS_CHECK(params.layout.d_head % 2 == 0 && params.layout.d_head <= 2 * kHalfHeadMax);
  const int64_t row = int64_t{params.n_heads + 2 * params.layout.n_kv_heads} * params.layout.d_head;
  run_rows(team, params.n_tokens, row, [&](int64_t first, int64_t last) {
    for (int64_t token = first; token < last; ++token) rope_append_token(params, token);
  });
}

void rope_rotate_cpu(const RopeRotateParams& params, Team& team) {
  const int64_t d = params.d_head;
  HS_CHECK(d % 2 == 0 && d <= 2 * kHalfHeadMax);
  run_rows(team, params.n_rows, params.n_heads * d, [&](int64_t first, int64_t last) {
    Angles angles;
    for (int64_t i = first; i < last; ++i) {
      find_angles(params, params.n_rows, d / 2, i, &angles);
      float* x = params.x + i * params.x_stride;
      for (int32_t h = 0; h < params.n_heads; ++h) rotate_head(x + h * d, angles, d / 2, x + h * d);
    }
  });
}

}  // namespace hs::HS_ISA_NS
