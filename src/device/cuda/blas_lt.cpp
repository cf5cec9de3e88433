#include "device/cuda/blas_lt.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "device/cuda/memory.h"
#include "kernels/activation_cuda.h"

namespace hs::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{4} << 20;
constexpr size_t kWorkspaceBytesHopper = size_t{32} << 20;

int data_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
    default:
      HS_CHECK(dtype == DType::kF32);
      return CUDA_R_32F;
  }
}

// The epilogue as the library may have it; 0: it has none like this.
uint32_t library_epilogue(Epilogue epilogue, bool bias) {
  const uint32_t with_bias = bias ? uint32_t{BlasLtApi::kBias} : 0U;
  switch (epilogue) {
    case Epilogue::kNone:
      return bias ? with_bias : uint32_t{BlasLtApi::kDefault};
    case Epilogue::kRelu:
      return BlasLtApi::kRelu | with_bias;
    case Epilogue::kGeluTanh:
      return BlasLtApi::kGelu | with_bias;
    default:
      return 0;
  }
}

uint32_t alignment_of(const void* data, int64_t stride, DType dtype) {
  const uint64_t bits =
      reinterpret_cast<uintptr_t>(data) | static_cast<uint64_t>(stride) * dtype_bytes(dtype) | 256U;
  return uint32_t{1} << std::countr_zero(bits);
}

}  // namespace

#define HS_BLAS(call)                                                                       \
  if (const int hs_result = (call); hs_result != BlasLtApi::kSuccess) [[unlikely]]          \
  return std::unexpected(                                                                   \
      context_.check_text(false, blas_lt_status_name(hs_result), #call, __FILE__, __LINE__) \
          .error())

// The library is column-major: it sees y^T (out x rows) = W^T^T x^T, with W's rows as columns.
struct BlasLt::Call {
  explicit Call(const BlasLtApi& functions) : api(functions) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (desc != nullptr) api.desc_destroy(desc);
    for (void* layout : {weight, x, y}) {
      if (layout != nullptr) api.layout_destroy(layout);
    }
  }

  int describe(const Key& key, int64_t n_rows, const float* bias) {
    const auto rows = static_cast<uint64_t>(n_rows);
    const auto in = static_cast<uint64_t>(key.in_dim);
    const auto out = static_cast<uint64_t>(key.out_dim);
    const int type = data_type(key.dtype);
    const int32_t transposed = BlasLtApi::kTransposed;
    const int32_t bias_type = CUDA_R_32F;
    int status = api.desc_create(&desc, BlasLtApi::kCompute32F, CUDA_R_32F);
    const auto then = [&](auto step) {
      if (status == BlasLtApi::kSuccess) status = step();
    };
    const auto set = [&](BlasLtApi::DescAttribute attribute, const auto& value) {
      then([&] { return api.desc_set(desc, attribute, &value, sizeof value); });
    };
    set(BlasLtApi::kTransA, transposed);
    set(BlasLtApi::kEpilogue, key.epilogue);
    if ((key.epilogue & BlasLtApi::kBias) != 0) {
      set(BlasLtApi::kBiasPointer, bias);
      set(BlasLtApi::kBiasDataType, bias_type);
    }
    then([&] { return api.layout_create(&weight, type, in, out, key.in_dim); });
    then([&] { return api.layout_create(&x, type, in, rows, key.x_stride); });
    then([&] { return api.layout_create(&y, data_type(key.y_dtype), out, rows, key.y_stride); });
    return status;
  }

  const BlasLtApi& api;
  void* desc = nullptr;
  void* weight = nullptr;
  void* x = nullptr;
  void* y = nullptr;
};

Result<std::unique_ptr<BlasLt>> BlasLt::create(Context& context, cudaStream_t stream) {
  const Result<const BlasLtApi*> api = load_blas_lt();
  if (!api) return std::unexpected(api.error());
  HS_TRY(context.use());
  int major = 0;
  HS_CUDA_TRY(context,
              cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, context.index()));
  std::unique_ptr<BlasLt> blas(new BlasLt(context, stream, **api));
  if (const int status = blas->api_.create(&blas->handle_); status != BlasLtApi::kSuccess) {
    return std::unexpected(
        context.check_text(false, blas_lt_status_name(status), "cublasLtCreate", __FILE__, __LINE__)
            .error());
  }
  const size_t bytes = major >= 9 ? kWorkspaceBytesHopper : kWorkspaceBytes;
  for (Buffer* buffer : {&blas->workspace_, &blas->scratch_}) {
    Result<Buffer> made = allocate_device(context, bytes, stream);
    if (!made) return std::unexpected(std::move(made.error()));
    *buffer = std::move(*made);
  }
  return blas;
}

BlasLt::~BlasLt() {
  if (handle_ != nullptr) api_.destroy(handle_);
}

Status BlasLt::linear(const LinearParams& params) {
  const bool has_bias = params.bias != nullptr;
  // The library applies its epilogue to the sum with y: right for a bias, not for an activation.
  const bool plain = params.epilogue == Epilogue::kNone;
  const uint32_t fused = library_epilogue(params.epilogue, has_bias);
  if (fused != 0 && (plain || !params.accumulate)) {
    const auto done =
        multiply(params, fused, params.bias, params.accumulate, fused != BlasLtApi::kDefault);
    if (!done) return std::unexpected(done.error());
    if (*done) return {};
  }
  if (params.accumulate) return through_scratch(params);
  const auto done = multiply(params, BlasLtApi::kDefault, nullptr, false, false);
  if (!done) return std::unexpected(done.error());
  return finish(params, params.y, params.y_stride, false);
}

// Whether the library did it; false only when it may decline.
Result<bool> BlasLt::multiply(const LinearParams& params, uint32_t epilogue, const float* bias,
                              bool accumulate, bool may_decline) {
  const Key key{.rows = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(params.n_rows))),
                .out_dim = params.out_dim,
                .in_dim = params.in_dim,
                .x_stride = params.x_stride,
                .y_stride = params.y_stride,
                .dtype = params.dtype,
                .y_dtype = params.y_dtype,
                .alignment = std::min({alignment_of(params.x, params.x_stride, params.dtype),
                                       alignment_of(params.weight, params.in_dim, params.dtype),
                                       alignment_of(params.y, params.y_stride, params.y_dtype)}),
                .epilogue = epilogue,
                .accumulate = accumulate};
  const auto found = algorithm(key, bias);
  if (!found) return std::unexpected(found.error());
  if (!(*found)->has_value()) {
    if (may_decline) return false;
    return fail(ErrorKind::kUnsupported,
                fmt::format("cuda:{}: cuBLASLt has no algorithm for a product of {} x {} with {} "
                            "rows of {}",
                            context_.index(), params.out_dim, params.in_dim, params.n_rows,
                            dtype_name(params.dtype)));
  }
  Call call(api_);
  HS_BLAS(call.describe(key, params.n_rows, bias));
  const float alpha = 1;
  const float beta = accumulate ? 1 : 0;
  HS_BLAS(api_.matmul(handle_, call.desc, &alpha, params.weight, call.weight, params.x, call.x,
                      &beta, params.y, call.y, params.y, call.y, &***found, workspace_.data(),
                      workspace_.bytes(), stream_));
  return true;
}

Result<const BlasLt::Algorithm*> BlasLt::algorithm(const Key& key, const float* bias) {
  if (const auto known = algorithms_.find(key); known != algorithms_.end()) return &known->second;
  Call call(api_);
  HS_BLAS(call.describe(key, key.rows, bias));
  void* preference = nullptr;
  HS_BLAS(api_.preference_create(&preference));
  const uint64_t workspace = workspace_.bytes();
  api_.preference_set(preference, BlasLtApi::kWorkspaceBytesMax, &workspace, sizeof workspace);
  for (const auto side : {BlasLtApi::kAlignmentA, BlasLtApi::kAlignmentB, BlasLtApi::kAlignmentC,
                          BlasLtApi::kAlignmentD}) {
    api_.preference_set(preference, side, &key.alignment, sizeof key.alignment);
  }
  BlasLtHeuristic result;
  int n_results = 0;
  ++n_asked_;
  const int status = api_.heuristic(handle_, call.desc, call.weight, call.x, call.y, call.y,
                                    preference, 1, &result, &n_results);
  api_.preference_destroy(preference);
  if (status != BlasLtApi::kNotSupported) HS_BLAS(status);
  Algorithm algorithm;
  if (status == BlasLtApi::kSuccess && n_results > 0 && result.status == BlasLtApi::kSuccess) {
    algorithm = result.algorithm;
  }
  return &algorithms_.emplace(key, algorithm).first->second;
}

// y = epilogue(product + bias) (+ y)
Status BlasLt::finish(const LinearParams& params, const void* product, int64_t product_stride,
                      bool accumulate) {
  if (params.bias == nullptr && params.epilogue == Epilogue::kNone && !accumulate) return {};
  return HS_CUDA(context_, bias_activation({.dtype = params.y_dtype,
                                            .x = product,
                                            .bias = params.bias,
                                            .y = params.y,
                                            .n_rows = params.n_rows,
                                            .dim = params.out_dim,
                                            .x_stride = product_stride,
                                            .y_stride = params.y_stride,
                                            .activation = params.epilogue,
                                            .accumulate = accumulate},
                                           stream_));
}

// The product stands beside y until its epilogue is done: as many rows at a time as there is room.
Status BlasLt::through_scratch(const LinearParams& params) {
  const size_t row_bytes = static_cast<size_t>(params.out_dim) * dtype_bytes(params.y_dtype);
  const auto room = static_cast<int64_t>(scratch_.bytes() / row_bytes);
  HS_CHECK_GT(room, 0);
  for (int64_t first = 0; first < params.n_rows; first += room) {
    LinearParams part = params;
    part.n_rows = std::min(room, params.n_rows - first);
    part.x = static_cast<const std::byte*>(params.x) +
             static_cast<size_t>(first * params.x_stride) * dtype_bytes(params.dtype);
    void* const y = static_cast<std::byte*>(params.y) +
                    static_cast<size_t>(first * params.y_stride) * dtype_bytes(params.y_dtype);
    part.y = scratch_.data();
    part.y_stride = params.out_dim;
    const auto done = multiply(part, BlasLtApi::kDefault, nullptr, false, false);
    if (!done) return std::unexpected(done.error());
    part.y = y;
    part.y_stride = params.y_stride;
    HS_TRY(finish(part, scratch_.data(), params.out_dim, true));
  }
  return {};
}

}  // namespace hs::cuda
