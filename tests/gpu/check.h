// Measures GPUs through the layers that serve, and compares the result with what the hardware could
// do. The same program runs in tests on emulated GPUs, where its numbers mean nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda_plugin.h"
#include "gpu/report.h"

namespace hs::gpu {

// A language layer's matrices, (out, in) each, and its attention.
struct LayerShape {
  std::string_view name;
  int64_t dim = 0;
  int64_t ff_dim = 0;
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t d_head = 0;
  int64_t vocab = 0;
};

// How much work a point is: what a GPU needs for a sound number, or what an emulator can bear.
struct Sizes {
  std::vector<LayerShape> layers;
  size_t cold_bytes = 0;  // of weights that take turns, so that no cache holds them
  size_t copy_bytes = 0;  // of one large copy
  int64_t gemm_dim = 0;   // of a square product that shows the rate of the tensor cores
  std::vector<int32_t> decode_rows;
  std::vector<std::pair<int32_t, int32_t>> decode_contexts;  // sequences, tokens before each
  std::vector<int32_t> prefill_tokens;
  int32_t step_tokens = 0;   // budget of a step of the whole model
  int32_t step_context = 0;  // tokens before each decode step
  std::vector<int32_t> pictures;
  int32_t tier_requests = 0;  // of text, beside a third as many with pictures
  double seconds = 0;         // a point, about
  int64_t calls_max = 0;      // and at most
};
Sizes full_sizes();
Sizes small_sizes();

struct Options {
  std::string model;  // a checkpoint of the size that is to be judged
  std::string demo;   // a small one, whose answers are compared with the CPU's
  Sizes sizes = full_sizes();
  std::function<void(const std::string&)> progress = {};
};

// What later parts are compared with.
struct Rates {
  double copy_gbs = 0;  // reading and writing device memory
  double gemm_tflops = 0;
  double upload_gbs = 0;  // pinned host memory to the device
  double download_gbs = 0;
};

// Everything, in the order of what is worth most. Errors: no GPU that can be used; what a device
// says. Parts that do not fit are told in the report.
Result<Report> check_gpus(const CudaPlugin& plugin, const Options& options);

// The parts. Each opens the devices that it needs.
using MakeDevice = std::function<Result<std::unique_ptr<Device>>(int index, bool graphs)>;
struct Bench {
  MakeDevice make;
  const std::vector<DeviceInfo>& devices;
  const Options& options;
  Rates& rates;
  Report& report;
};
Status check_rates(const Bench& bench);
Status check_products(const Bench& bench);
Status check_attention(const Bench& bench);
Status check_small_ops(const Bench& bench);
Status check_model(const Bench& bench);
Status check_links(const Bench& bench);
Status check_tiers(const Bench& bench);
Status check_answers(const Bench& bench);

}  // namespace hs::gpu
