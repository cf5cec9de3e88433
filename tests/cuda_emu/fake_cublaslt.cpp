// The fake cuBLASLt: products in float32 on the streams of the fake CUDA runtime. It takes the
// types that NVIDIA's table for regular matrices names, declines others as the library does, and
// holds algorithms to the types and alignments they were chosen for.
#include "cuda_emu/fake_cublaslt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "cuda_emu/fake_cublaslt_product.h"
#include "cuda_emu/fake_machine.h"
#include "cuda_emu/memory.h"

namespace hs::cuda_emu::blas {

struct Desc {
  int compute_type = 0;
  int scale_type = 0;
  int32_t transpose_a = 0;
  int32_t transpose_b = 0;
  uint32_t epilogue = kDefault;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // the output's
};

struct Preference {
  uint64_t workspace_bytes_max = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of a, b, c, d
};

// Handles, descriptors, layouts, preferences of one machine, by address.
struct Object {
  std::shared_ptr<void> value;
  const void* kind = nullptr;
  int device = -1;
};

}  // namespace hs::cuda_emu::blas

namespace hs::cuda_emu {

struct BlasObjects {
  Handles<void*, blas::Object> all;
};

}  // namespace hs::cuda_emu

namespace hs::cuda_emu::blas {
namespace {

struct Handle {};

template <typename T>
const void* kind_of() {
  static const char kind = 0;
  return &kind;
}

BlasObjects& objects(Machine& m) {
  if (m.blas() == nullptr) m.blas() = std::make_shared<BlasObjects>();
  return *m.blas();
}

template <typename T>
void* add_object(Machine& m, T value) {
  auto object = std::make_shared<Object>();
  object->value = std::make_shared<T>(std::move(value));
  object->kind = kind_of<T>();
  object->device = m.current();
  ++m.n_blas_objects();
  return objects(m).all.add(std::move(object));
}

template <typename T>
T* find(Machine& m, void* handle) {
  const auto object = objects(m).all.get(handle);
  return object != nullptr && object->kind == kind_of<T>() ? static_cast<T*>(object->value.get())
                                                           : nullptr;
}

// Of which device a handle is.
int device_of(Machine& m, void* handle) {
  return objects(m).all.get(handle)->device;
}

// A function of the library: body(Machine&) -> Status. What fails in the runtime below fails here.
template <typename Body>
int blas_api(const char* name, Needs needs, const Body& body) {
  Status status = kSuccess;
  const cudaError_t before = thread_state().last_error;
  const cudaError_t error = api(name, needs, [&](Machine& m) {
    status = body(m);
    return cudaSuccess;
  });
  thread_state().last_error = before;
  switch (error) {
    case cudaSuccess:
      return status;
    case cudaErrorMemoryAllocation:
      return kAllocFailed;
    case cudaErrorNotSupported:
      return kNotSupported;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return kNotInitialized;
    default:
      return kExecutionFailed;
  }
}

template <typename T>
int destroy(const char* name, void* handle) {
  return blas_api(name, Needs::kNothing, [&](Machine& m) {
    if (find<T>(m, handle) == nullptr) return kInvalidValue;
    --m.n_blas_objects();
    objects(m).all.remove(handle);
    return kSuccess;
  });
}

bool take(void* to, size_t to_bytes, const void* from, size_t bytes) {
  if (from == nullptr || bytes != to_bytes) return false;
  std::memcpy(to, from, bytes);
  return true;
}

// One product, as its descriptors say.
struct Call {
  Desc desc;
  Matrix a, b, c, d;

  int32_t bias_type() const { return desc.bias_type == -1 ? d.type : desc.bias_type; }
  bool has_bias() const { return (desc.epilogue & kBias) != 0; }
  size_t inner() const { return desc.transpose_a != 0 ? a.rows : a.cols; }
};

bool layouts(Machine& m, Call& call, void* desc, void* const (&handles)[4]) {
  const Desc* found = find<Desc>(m, desc);
  if (found == nullptr) return false;
  call.desc = *found;
  Matrix* const matrices[] = {&call.a, &call.b, &call.c, &call.d};
  for (size_t i = 0; i < 4; ++i) {
    const Matrix* layout = find<Matrix>(m, handles[i]);
    if (layout == nullptr) return false;
    *matrices[i] = *layout;
  }
  return true;
}

// Sizes that fit each other, types of NVIDIA's table: 16-bit in, the same or float32 out, bias of
// the output's type; float32 throughout.
Status check(const Call& call) {
  const Desc& desc = call.desc;
  const bool ta = desc.transpose_a != 0, tb = desc.transpose_b != 0;
  const size_t rows = ta ? call.a.cols : call.a.rows, cols = tb ? call.b.rows : call.b.cols;
  if (call.inner() != (tb ? call.b.cols : call.b.rows) || call.d.rows != rows ||
      call.d.cols != cols || call.c.rows != rows || call.c.cols != cols) {
    return kInvalidValue;
  }
  if (rows == 0 || cols == 0 || call.inner() == 0) return kInvalidValue;
  if (desc.compute_type != kCompute32F || desc.scale_type != CUDA_R_32F) return kNotSupported;
  if (call.a.type != call.b.type || call.c.type != call.d.type) return kNotSupported;
  if (call.d.type != call.a.type && call.d.type != CUDA_R_32F) return kNotSupported;
  if (call.has_bias() && call.bias_type() != call.d.type) return kNotSupported;
  constexpr uint32_t kKnown[] = {kDefault, kRelu, kBias, kRelu | kBias, kGelu, kGelu | kBias};
  const bool known =
      std::find(std::begin(kKnown), std::end(kKnown), desc.epilogue) != std::end(kKnown);
  return known ? kSuccess : kNotSupported;
}

// What an algorithm may be used for; the rest of its words name it.
constexpr uint64_t kMagic = 0xB1A5'0000'0000'0001;
constexpr size_t kWorkspace = size_t{64} << 10;

Algorithm algorithm_for(const Call& call, const Preference& preference, size_t workspace_bytes) {
  Algorithm algorithm = {};
  algorithm.data[0] = kMagic;
  algorithm.data[1] = uint64_t(call.a.type) << 32 | uint64_t(call.d.type);
  algorithm.data[2] = call.desc.epilogue;
  algorithm.data[3] = static_cast<uint64_t>(call.desc.transpose_a * 2 + call.desc.transpose_b);
  algorithm.data[4] = uint64_t{preference.alignment[0]} << 32 | preference.alignment[1];
  algorithm.data[5] = uint64_t{preference.alignment[2]} << 32 | preference.alignment[3];
  algorithm.data[6] = workspace_bytes;
  return algorithm;
}

bool aligned(const void* p, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(p) % alignment == 0;
}

// "" or what the algorithm was not chosen for.
std::string misuse(const Call& call, const Algorithm& algorithm, size_t workspace_bytes) {
  const Algorithm same = algorithm_for(call, {}, 0);
  if (algorithm.data[0] != kMagic) return "the algorithm is not one of the heuristic's";
  for (size_t i = 1; i < 4; ++i) {
    if (algorithm.data[i] != same.data[i]) {
      return "the algorithm was chosen for other types, transpositions or another epilogue";
    }
  }
  const uint64_t ab = algorithm.data[4], cd = algorithm.data[5];
  if (!aligned(call.a.data, ab >> 32) || !aligned(call.b.data, ab & 0xFFFFFFFF) ||
      !aligned(call.c.data, cd >> 32) || !aligned(call.d.data, cd & 0xFFFFFFFF)) {
    return "a matrix is less aligned than the algorithm was chosen for";
  }
  if (workspace_bytes < algorithm.data[6]) return "the algorithm needs a larger workspace";
  return {};
}

// The operation: where the matrices are, as the kernel would see them.
struct Job {
  Call call;
  float alpha = 1;
  float beta = 0;
  std::byte* workspace = nullptr;
  int device = 0;
};

void need(Machine& m, const Job& job, const void* p, size_t bytes, const char* what) {
  const Place place = m.place(p, bytes);
  const bool ours =
      place.kind == Place::kDevice &&
      (place.device == job.device ||
       m.devices()[static_cast<size_t>(job.device)].has_access[static_cast<size_t>(place.device)]);
  if (ours || place.kind == Place::kPinned) return;
  throw Fault(fmt::format("product with {} of {} bytes at {}", what, bytes, m.describe(p)),
              cudaErrorIllegalAddress);
}

// Each product marks its workspace while it is under way; two at once in one are both wrong.
void mark_workspace(Machine& m, const Job& job, uint64_t mark) {
  if (m.place(job.workspace, kWorkspace).kind != Place::kDevice) return;
  for (size_t at = 0; at < kWorkspace; at += sizeof mark) {
    std::memcpy(m.view(job.workspace) + at, &mark, sizeof mark);
  }
}

bool is_marked(Machine& m, const Job& job, uint64_t mark) {
  uint64_t found = 0;
  std::memcpy(&found, m.view(job.workspace), sizeof found);
  return found == mark;
}

void multiply(Machine& m, const Job& job) {
  const Call& call = job.call;
  need(m, job, call.a.data, span_bytes(call.a), "A");
  need(m, job, call.b.data, span_bytes(call.b), "B");
  need(m, job, call.d.data, span_bytes(call.d), "D");
  if (job.beta != 0) need(m, job, call.c.data, span_bytes(call.c), "C");
  if (call.has_bias()) {
    need(m, job, call.desc.bias, call.d.rows * type_bytes(call.d.type), "bias");
  }
  Matrix a = call.a, b = call.b;
  a.data = m.view(call.a.data);
  b.data = m.view(call.b.data);
  const auto sums = product(a, call.desc.transpose_a != 0, b, call.desc.transpose_b != 0);
  void* const d = m.view(call.d.data);
  const void* const c = m.view(call.c.data);
  const void* const bias = call.has_bias() ? m.view(call.desc.bias) : nullptr;
  for (size_t col = 0; col < call.d.cols; ++col) {
    for (size_t row = 0; row < call.d.rows; ++row) {
      float value = job.alpha * sums[col * call.d.rows + row];
      if (job.beta != 0) value += job.beta * element(c, call.c.type, col * call.c.ld + row);
      if (bias != nullptr) value += element(bias, call.d.type, row);
      if ((call.desc.epilogue & kRelu) != 0) value = std::max(value, 0.0F);
      if ((call.desc.epilogue & kGelu) != 0) value = gelu_tanh(value);
      set_element(d, call.d.type, col * call.d.ld + row, value);
    }
  }
}

void poison_result(Machine& m, const Call& call) {
  const size_t column = call.d.rows * type_bytes(call.d.type);
  std::byte* const d = m.view(call.d.data);
  for (size_t col = 0; col < call.d.cols; ++col) {
    std::memset(d + col * call.d.ld * type_bytes(call.d.type), kPoison, column);
  }
}

Status enqueue(Machine& m, Stream& stream, const Job& job) {
  auto mark = std::make_shared<uint64_t>(0);  // 0: not under way
  Work work{.what = fmt::format("cuBLASLt product of {} x {} x {}", job.call.d.rows,
                                job.call.d.cols, job.call.inner()),
            .type = cudaGraphNodeTypeKernel};
  work.start = [&m, job, mark] {
    if (job.workspace == nullptr) return;
    *mark = m.executor().draw(UINT64_MAX) | 1;
    mark_workspace(m, job, *mark);
  };
  work.run = [&m, job, mark] {
    if (job.workspace != nullptr) need(m, job, job.workspace, kWorkspace, "the workspace");
    multiply(m, job);
    // The mark of another product, or other data: this one's partial sums are gone.
    const uint64_t mine = std::exchange(*mark, 0);
    if (mine != 0 && !is_marked(m, job, mine)) poison_result(m, job.call);
  };
  return m.submit(stream, std::move(work)) == cudaSuccess ? kSuccess : kExecutionFailed;
}

}  // namespace
}  // namespace hs::cuda_emu::blas

namespace blas = hs::cuda_emu::blas;
using hs::cuda_emu::Machine;
using hs::cuda_emu::Needs;

extern "C" {

size_t cublasLtGetVersion() {
  constexpr size_t kVersion = 130000;
  return kVersion;
}

int cublasLtCreate(void** handle) {
  return blas::blas_api("cublasLtCreate", Needs::kNoCapture, [&](Machine& m) {
    *handle = blas::add_object(m, blas::Handle());
    return blas::kSuccess;
  });
}

int cublasLtDestroy(void* handle) {
  return blas::destroy<blas::Handle>("cublasLtDestroy", handle);
}

int cublasLtMatmulDescCreate(void** desc, int compute_type, int scale_type) {
  return blas::blas_api("cublasLtMatmulDescCreate", Needs::kDriver, [&](Machine& m) {
    *desc = blas::add_object(m, blas::Desc{.compute_type = compute_type, .scale_type = scale_type});
    return blas::kSuccess;
  });
}

int cublasLtMatmulDescDestroy(void* desc) {
  return blas::destroy<blas::Desc>("cublasLtMatmulDescDestroy", desc);
}

int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes) {
  return blas::blas_api("cublasLtMatmulDescSetAttribute", Needs::kDriver, [&](Machine& m) {
    auto* d = blas::find<blas::Desc>(m, desc);
    if (d == nullptr) return blas::kInvalidValue;
    const auto take = [&](auto& to) { return blas::take(&to, sizeof to, value, bytes); };
    const bool taken = attribute == blas::kTransA        ? take(d->transpose_a)
                       : attribute == blas::kTransB      ? take(d->transpose_b)
                       : attribute == blas::kEpilogue    ? take(d->epilogue)
                       : attribute == blas::kBiasPointer ? take(d->bias)
                       : attribute == blas::kBiasType    ? take(d->bias_type)
                                                         : false;
    return taken ? blas::kSuccess : blas::kInvalidValue;
  });
}

int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  return blas::blas_api("cublasLtMatrixLayoutCreate", Needs::kDriver, [&](Machine& m) {
    const auto data_type = static_cast<cudaDataType>(type);
    if (blas::type_bytes(data_type) == 0) return blas::kNotSupported;
    if (ld < 0 || static_cast<uint64_t>(ld) < rows) return blas::kInvalidValue;
    *layout = blas::add_object(m, blas::Matrix{.data = nullptr,
                                               .type = data_type,
                                               .rows = rows,
                                               .cols = cols,
                                               .ld = static_cast<size_t>(ld)});
    return blas::kSuccess;
  });
}

int cublasLtMatrixLayoutDestroy(void* layout) {
  return blas::destroy<blas::Matrix>("cublasLtMatrixLayoutDestroy", layout);
}

int cublasLtMatmulPreferenceCreate(void** preference) {
  return blas::blas_api("cublasLtMatmulPreferenceCreate", Needs::kDriver, [&](Machine& m) {
    *preference = blas::add_object(m, blas::Preference());
    return blas::kSuccess;
  });
}

int cublasLtMatmulPreferenceDestroy(void* preference) {
  return blas::destroy<blas::Preference>("cublasLtMatmulPreferenceDestroy", preference);
}

int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                         size_t bytes) {
  return blas::blas_api("cublasLtMatmulPreferenceSetAttribute", Needs::kDriver, [&](Machine& m) {
    auto* p = blas::find<blas::Preference>(m, preference);
    if (p == nullptr) return blas::kInvalidValue;
    bool taken = false;
    if (attribute == blas::kWorkspaceBytesMax) {
      taken = blas::take(&p->workspace_bytes_max, sizeof p->workspace_bytes_max, value, bytes);
    } else if (attribute >= blas::kAlignmentA && attribute <= blas::kAlignmentD) {
      auto& alignment = p->alignment[attribute - blas::kAlignmentA];
      taken = blas::take(&alignment, sizeof alignment, value, bytes) && alignment > 0;
    }
    return taken ? blas::kSuccess : blas::kInvalidValue;
  });
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, void* desc, void* a, void* b, void* c, void* d,
                                   void* preference, int n_wanted, blas::Heuristic* results,
                                   int* n_results) {
  *n_results = 0;
  return blas::blas_api("cublasLtMatmulAlgoGetHeuristic", Needs::kContext, [&](Machine& m) {
    blas::Call call;
    const auto* p = blas::find<blas::Preference>(m, preference);
    if (blas::find<blas::Handle>(m, handle) == nullptr || p == nullptr || n_wanted < 1 ||
        !blas::layouts(m, call, desc, {a, b, c, d})) {
      return blas::kInvalidValue;
    }
    if (const blas::Status status = blas::check(call); status != blas::kSuccess) return status;
    const size_t bytes = p->workspace_bytes_max >= blas::kWorkspace ? blas::kWorkspace : 0;
    *results = {.algorithm = blas::algorithm_for(call, *p, bytes),
                .workspace_bytes = bytes,
                .status = blas::kSuccess,
                .waves = 1,
                .reserved = {}};
    *n_results = 1;
    return blas::kSuccess;
  });
}

int cublasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                   void* d, void* d_layout, const blas::Algorithm* algorithm, void* workspace,
                   size_t workspace_bytes, cudaStream_t stream) {
  return blas::blas_api("cublasLtMatmul", Needs::kContext, [&](Machine& m) {
    blas::Job job;
    if (blas::find<blas::Handle>(m, handle) == nullptr ||
        !blas::layouts(m, job.call, desc, {a_layout, b_layout, c_layout, d_layout})) {
      return blas::kInvalidValue;
    }
    if (const blas::Status status = blas::check(job.call); status != blas::kSuccess) return status;
    if (job.call.has_bias() && job.call.desc.bias == nullptr) return blas::kInvalidValue;
    job.call.a.data = a;
    job.call.b.data = b;
    job.call.c.data = c;
    job.call.d.data = d;
    std::memcpy(&job.alpha, alpha, sizeof job.alpha);
    std::memcpy(&job.beta, beta, sizeof job.beta);
    if (algorithm != nullptr) {
      const std::string wrong = blas::misuse(job.call, *algorithm, workspace_bytes);
      if (!wrong.empty()) {
        m.report("cublasLtMatmul: " + wrong);
        return blas::kNotSupported;
      }
      if (algorithm->data[6] > 0) job.workspace = static_cast<std::byte*>(workspace);
    }
    const auto s = m.stream(stream);
    if (s == nullptr) return blas::kInvalidValue;
    if (s->device != m.current() || blas::device_of(m, handle) != s->device) {
      m.report(
          fmt::format("cublasLtMatmul: a handle of device {} and a stream of device {} while "
                      "device {} is current",
                      blas::device_of(m, handle), s->device, m.current()));
      return blas::kExecutionFailed;
    }
    job.device = s->device;
    return blas::enqueue(m, *s, job);
  });
}

}  // extern "C"
