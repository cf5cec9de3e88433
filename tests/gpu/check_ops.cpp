// Rates of the machine, and each op alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu/check.h"
#include "gpu/op_bench.h"

namespace hs::gpu {
namespace {

constexpr int32_t kBlock = 16;  // tokens of a KV block

double bytes_of(int64_t elements, DType dtype) {
  return static_cast<double>(elements) * static_cast<double>(dtype_bytes(dtype));
}

int32_t div_up(int64_t n, int64_t by) {
  return static_cast<int32_t>((n + by - 1) / by);
}

// One way over PCIe, through pinned host memory.
Result<double> pcie_gbs(Device& device, const Sizes& sizes, bool up) {
  auto host = device.allocate_staging(sizes.copy_bytes);
  if (!host) return std::unexpected(host.error());
  auto there = device.allocate(sizes.copy_bytes);
  if (!there) return std::unexpected(there.error());
  const auto seconds = seconds_of(sizes, [&] {
    return up ? device.write(host->data(), there->data(), sizes.copy_bytes)
              : device.read(there->data(), host->data(), sizes.copy_bytes);
  });
  if (!seconds) return std::unexpected(seconds.error());
  return static_cast<double>(sizes.copy_bytes) * 1e-9 / *seconds;
}

// A copy inside the device: every byte is read and written.
Result<double> copy_gbs(Device& device, const Sizes& sizes) {
  const size_t bytes = 4 * sizes.copy_bytes;
  auto from = device.allocate(bytes);
  if (!from) return std::unexpected(from.error());
  auto to = device.allocate(bytes);
  if (!to) return std::unexpected(to.error());
  const auto seconds =
      seconds_of(sizes, [&] { return device.copy_from(device, from->data(), to->data(), bytes); });
  if (!seconds) return std::unexpected(seconds.error());
  return 2 * static_cast<double>(bytes) * 1e-9 / *seconds;
}

// Keeps the first error.
Status keep(const Result<double>& from, double& to) {
  if (!from) return std::unexpected(from.error());
  to = *from;
  return {};
}

// As many copies of a weight as no cache holds, in turn.
std::vector<PackedWeight> cold_weights(OpBench& bench, const Sizes& sizes, int64_t out, int64_t in,
                                       DType dtype) {
  const double one = bytes_of(out * in, dtype);
  const auto n = std::clamp<int64_t>(
      std::llround(std::ceil(static_cast<double>(sizes.cold_bytes) / one)), 1, 64);
  std::vector<PackedWeight> weights;
  for (int64_t i = 0; i < n; ++i) weights.push_back(bench.weight(out, in));
  return weights;
}

struct Product {
  int64_t out = 0;
  int64_t in = 0;
  bool is_head = false;
};

std::vector<Product> products_of(const LayerShape& shape) {
  const int64_t q = int64_t{shape.n_heads} * shape.d_head;
  const int64_t kv = int64_t{shape.n_kv_heads} * shape.d_head;
  return {{q + 2 * kv, shape.dim},
          {shape.dim, q},
          {2 * shape.ff_dim, shape.dim},
          {shape.dim, shape.ff_dim},
          {shape.vocab, shape.dim, true}};
}

// A layer's products, and the output matrix, one after another with few rows: bytes of weights a
// second.
void measure_products(const Bench& bench, Device& device, const LayerShape& shape) {
  const Sizes& sizes = bench.options.sizes;
  const DType dtype = device.activation_dtype();
  std::vector<double> seconds(sizes.decode_rows.size());
  double bytes = 0;
  for (const Product& product : products_of(shape)) {
    OpBench ops(device, sizes);
    const auto weights = cold_weights(ops, sizes, product.out, product.in, dtype);
    const int64_t rows_max = std::ranges::max(sizes.decode_rows);
    const Matrix x = ops.matrix(rows_max, product.in);
    const Matrix y = ops.matrix(rows_max, product.out, product.is_head ? DType::kF32 : dtype);
    bytes += bytes_of(product.out * product.in, dtype);
    for (size_t i = 0; i < sizes.decode_rows.size(); ++i) {
      const int32_t rows = sizes.decode_rows[i];
      seconds[i] += ops.seconds([&](int64_t call) {
        ops.ops().linear(x.row_range(0, rows), weights[static_cast<size_t>(call) % weights.size()],
                         {}, y.row_range(0, rows));
      });
    }
    if (!ops.status()) return bench.report.miss("products", ops.status().error().message);
  }
  for (size_t i = 0; i < seconds.size(); ++i) {
    const int32_t rows = sizes.decode_rows[i];
    const double gbs = bytes * 1e-9 / seconds[i];
    const std::string name = fmt::format("layer and head of {}, {} row(s)", shape.name, rows);
    bench.report.add("products", name, gbs, "GB/s");
    const double share = gbs / bench.rates.copy_gbs;
    constexpr double kOfOneRow = 0.85;
    constexpr double kOfManyRows = 0.75;
    if (rows == 1)
      bench.report.at_least("products", name + ", of bandwidth", share, kOfOneRow);
    else if (rows == sizes.decode_rows.back())
      bench.report.at_least("products", name + ", of bandwidth", share, kOfManyRows);
    else
      bench.report.add("products", name + ", of bandwidth", share, "share");
  }
}

// Sequences that are cut alike: `before` tokens in the cache and `n_new` after them.
struct Packed {
  AttentionBatch batch;
  int64_t n_tokens = 0;
};

Packed pack(OpBench& bench, int32_t n_seqs, int32_t before, int32_t n_new) {
  const int32_t context = before + n_new;
  const int32_t per_seq = div_up(context, kBlock);
  std::vector<int32_t> positions, tables, lengths, cu_query = {0};
  std::vector<int64_t> slots;
  for (int32_t seq = 0; seq < n_seqs; ++seq) {
    for (int32_t i = 0; i < per_seq; ++i) tables.push_back(seq * per_seq + i);
    for (int32_t i = before; i < context; ++i) {
      positions.push_back(i);
      slots.push_back((int64_t{seq} * per_seq + i / kBlock) * kBlock + i % kBlock);
    }
    lengths.push_back(context);
    cu_query.push_back(cu_query.back() + n_new);
  }
  return {.batch = {.positions = bench.put(positions),
                    .slots = bench.put(slots),
                    .block_tables = bench.put(tables),
                    .cu_query = bench.put(cu_query),
                    .context_lens = bench.put(lengths),
                    .n_seqs = n_seqs,
                    .block_table_stride = per_seq,
                    .n_single = n_new == 1 ? n_seqs : 0},
          .n_tokens = int64_t{n_seqs} * n_new};
}

Status measure_attention(const Bench& bench, Device& device, const LayerShape& shape,
                         int32_t n_seqs, int32_t before, int32_t n_new) {
  OpBench ops(device, bench.options.sizes);
  const DType dtype = device.activation_dtype();
  const KvLayout layout{dtype, kBlock, shape.n_kv_heads, shape.d_head};
  const int64_t width = int64_t{shape.n_heads} * shape.d_head;
  const int32_t context = before + n_new;
  const int64_t n_blocks = int64_t{n_seqs} * div_up(context, kBlock);
  if (Status reserved = ops.ops().reserve({.n_seqs = n_seqs,
                                           .context_max = div_up(context, kBlock) * kBlock,
                                           .n_heads = shape.n_heads,
                                           .d_head = shape.d_head});
      !reserved) {
    return reserved;
  }
  const Matrix kv = ops.matrix(n_blocks, layout.block_stride());
  const Packed packed = pack(ops, n_seqs, before, n_new);
  const Matrix q = ops.matrix(packed.n_tokens, width);
  const Matrix out = ops.matrix(packed.n_tokens, width);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.d_head));
  const double seconds = ops.seconds(
      [&](int64_t) { ops.ops().paged_attention(q, kv.data, layout, packed.batch, scale, out); });
  if (!ops.status()) return ops.status();
  const std::string name =
      fmt::format("{}: {} x {} new after {}", shape.name, n_seqs, n_new, before);
  if (n_new == 1) {
    const double bytes =
        bytes_of(int64_t{2} * n_seqs * context * shape.n_kv_heads * shape.d_head, dtype);
    bench.report.add("attention", name, bytes * 1e-9 / seconds, "GB/s");
    bench.report.add("attention", name + ", of bandwidth",
                     bytes * 1e-9 / seconds / bench.rates.copy_gbs, "share");
    return {};
  }
  // Two products of (n_new, context) at half the work: causal.
  const double flops = 4.0 * n_seqs * n_new * (before + 0.5 * n_new) * static_cast<double>(width);
  bench.report.add("attention", name, flops * 1e-12 / seconds, "TFLOP/s");
  bench.report.add("attention", name + ", of GEMM rate",
                   flops * 1e-12 / seconds / bench.rates.gemm_tflops, "share");
  return {};
}

// A tower's attention over n_segments pictures, or windows, of n_rows patches each.
Status measure_packed(const Bench& bench, Device& device, int32_t n_segments, int32_t n_rows,
                      int32_t n_heads, int32_t d_head) {
  OpBench ops(device, bench.options.sizes);
  const int64_t width = int64_t{n_heads} * d_head;
  const int64_t n_tokens = int64_t{n_segments} * n_rows;
  std::vector<int32_t> cu_seqlens = {0};
  for (int32_t i = 0; i < n_segments; ++i) cu_seqlens.push_back(cu_seqlens.back() + n_rows);
  const int32_t* const on_device = ops.put(cu_seqlens);
  const Matrix qkv = ops.matrix(n_tokens, 3 * width);
  const Matrix out = ops.matrix(n_tokens, width);
  const float scale = 1 / std::sqrt(static_cast<float>(d_head));
  const double seconds = ops.seconds([&](int64_t) {
    ops.ops().packed_attention(qkv, on_device, n_segments, n_heads, scale, out);
  });
  if (!ops.status()) return ops.status();
  const double flops = 4.0 * static_cast<double>(n_tokens) * n_rows * static_cast<double>(width);
  bench.report.add("attention",
                   fmt::format("tower: {} segments of {} rows, {} heads of {}", n_segments, n_rows,
                               n_heads, d_head),
                   flops * 1e-12 / seconds, "TFLOP/s");
  return {};
}

Status measure_sampling(const Bench& bench, Device& device, int64_t vocab, int32_t rows) {
  OpBench ops(device, bench.options.sizes);
  if (Status reserved = ops.ops().reserve({.n_logit_rows = rows, .vocab = vocab}); !reserved) {
    return reserved;
  }
  const Matrix logits = ops.matrix(rows, vocab, DType::kF32);
  for (const bool greedy : {true, false}) {
    SamplingRow row{.temperature = greedy ? 0.0F : 0.8F};
    if (!greedy) row.top_p = 0.9F;
    const std::vector<SamplingRow> settings(static_cast<size_t>(rows), row);
    std::vector<SampledToken> sampled(settings.size());
    Status arrived;
    const double seconds = ops.seconds([&](int64_t) {
      ops.ops().sample(logits, vocab, settings, sampled);
      arrived = device.sync();
    });
    if (!arrived) return arrived;
    bench.report.add("small ops",
                     fmt::format("{} {} of {} tokens, with its way to the host",
                                 greedy ? "greedy" : "top-p", rows, vocab),
                     seconds * 1e6, "us");
  }
  return ops.status();
}

}  // namespace

Status check_rates(const Bench& bench) {
  const Sizes& sizes = bench.options.sizes;
  auto device = bench.make(bench.devices.front().id.index, true);
  if (!device) return std::unexpected(device.error());
  for (const DeviceInfo& info : bench.devices) {
    bench.report.add("machine", fmt::format("{} {}: memory", to_string(info.id), info.name),
                     static_cast<double>(info.memory_bytes) * 1e-9, "GB");
    bench.report.add("machine", fmt::format("{}: published bandwidth", to_string(info.id)),
                     info.bandwidth_gbs, "GB/s");
    bench.report.add("machine", fmt::format("{}: published bfloat16 rate", to_string(info.id)),
                     info.gflops * 1e-3, "TFLOP/s");
  }
  if (Status s = keep(copy_gbs(**device, sizes), bench.rates.copy_gbs); !s) return s;
  if (Status s = keep(pcie_gbs(**device, sizes, true), bench.rates.upload_gbs); !s) return s;
  if (Status s = keep(pcie_gbs(**device, sizes, false), bench.rates.download_gbs); !s) return s;
  bench.report.add("machine", "copy inside the device", bench.rates.copy_gbs, "GB/s");
  bench.report.add("machine", "pinned host memory to the device", bench.rates.upload_gbs, "GB/s");
  bench.report.add("machine", "device to pinned host memory", bench.rates.download_gbs, "GB/s");
  OpBench ops(**device, sizes);
  const Matrix tiny = ops.matrix(2, 8);
  const double launch =
      ops.seconds([&](int64_t) { ops.ops().copy(tiny.row_range(0, 1), tiny.row_range(1, 1)); });
  bench.report.add("machine", "an op of one small kernel", launch * 1e6, "us");
  const int64_t n = sizes.gemm_dim;
  const PackedWeight weight = ops.weight(n, n);
  const Matrix x = ops.matrix(n, n);
  const Matrix y = ops.matrix(n, n);
  const double seconds = ops.seconds([&](int64_t) { ops.ops().linear(x, weight, {}, y); });
  if (!ops.status()) return ops.status();
  const auto side = static_cast<double>(n);
  bench.rates.gemm_tflops = 2 * side * side * side * 1e-12 / seconds;
  bench.report.add("machine", fmt::format("product of {} x {} x {}", n, n, n),
                   bench.rates.gemm_tflops, "TFLOP/s");
  return {};
}

Status check_products(const Bench& bench) {
  auto device = bench.make(bench.devices.front().id.index, true);
  if (!device) return std::unexpected(device.error());
  for (const LayerShape& shape : bench.options.sizes.layers) {
    measure_products(bench, **device, shape);
  }
  return {};
}

Status check_attention(const Bench& bench) {
  auto device = bench.make(bench.devices.front().id.index, true);
  if (!device) return std::unexpected(device.error());
  const Sizes& sizes = bench.options.sizes;
  for (const LayerShape& shape : sizes.layers) {
    for (const auto& [n_seqs, before] : sizes.decode_contexts) {
      if (Status s = measure_attention(bench, **device, shape, n_seqs, before, 1); !s) {
        bench.report.miss("attention", s.error().message);
      }
    }
    for (const int32_t n : sizes.prefill_tokens) {
      if (Status s = measure_attention(bench, **device, shape, 1, 0, n); !s) {
        bench.report.miss("attention", s.error().message);
      }
    }
  }
  // CLIP's pictures, then the windows and the whole of a picture of Qwen2.5-VL.
  const int32_t n_pictures = sizes.pictures.back();
  const bool full = sizes.gemm_dim >= 1024;
  if (Status s = measure_packed(bench, **device, n_pictures, full ? 577 : 5, full ? 16 : 2,
                                full ? 64 : 16);
      !s) {
    return s;
  }
  if (!full) return {};
  if (Status s = measure_packed(bench, **device, 64, 64, 16, 80); !s) return s;
  return measure_packed(bench, **device, 1, 4096, 16, 80);
}

Status check_small_ops(const Bench& bench) {
  auto device = bench.make(bench.devices.front().id.index, true);
  if (!device) return std::unexpected(device.error());
  const Sizes& sizes = bench.options.sizes;
  for (const LayerShape& shape : sizes.layers) {
    for (const int32_t rows : {sizes.decode_rows.front(), sizes.decode_rows.back()}) {
      if (Status s = measure_sampling(bench, **device, shape.vocab, rows); !s) return s;
      OpBench ops(**device, sizes);
      const Matrix x = ops.matrix(rows, shape.dim);
      const Matrix y = ops.matrix(rows, shape.dim);
      const std::vector<float> ones(static_cast<size_t>(shape.dim), 1.0F);
      const Vector weight{ops.put(ones), shape.dim};
      const double norm = ops.seconds([&](int64_t) { ops.ops().rms_norm(x, weight, 1e-5F, y); });
      bench.report.add("small ops", fmt::format("norm of {} x {}", rows, shape.dim), norm * 1e6,
                       "us");
      const Matrix gate_up = ops.matrix(rows, 2 * shape.ff_dim);
      const Matrix inner = ops.matrix(rows, shape.ff_dim);
      const double gated = ops.seconds([&](int64_t) { ops.ops().silu_mul(gate_up, inner); });
      bench.report.add("small ops", fmt::format("gated activation of {} x {}", rows, shape.ff_dim),
                       gated * 1e6, "us");
      if (!ops.status()) return ops.status();
    }
  }
  return {};
}

}  // namespace hs::gpu
