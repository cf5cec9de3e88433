// A device as the rest of the program sees it: memory, copies, and the ops that models are written
// in.
//
// Model code calls Ops and never indexes device memory itself. Calls on one Device execute in
// order; the CPU device finishes each before it returns, a GPU enqueues it on the device's stream.
// One thread at a time (its lane's), except where a member says "any thread".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/dtype.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "device/memory_check.h"
#include "kernels/kv_cache.h"
#include "kernels/linear.h"
#include "kernels/sampling.h"

namespace hs {

// Which device; never a bare int. Text form: "cpu:0".
struct DeviceId {
  enum class Kind { kCpu, kCuda } kind = Kind::kCpu;
  int index = 0;
  bool operator==(const DeviceId&) const = default;
};
std::string to_string(DeviceId id);

// Owns device memory and remembers whose it is. Move-only. Freed on destruction, from any thread.
class Buffer {
 public:
  Buffer() = default;
  Buffer(DeviceId device, void* data, size_t bytes, void (*release)(void* data, size_t bytes))
      : device_(device), data_(data), bytes_(bytes), release_(release) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) release_(data_, bytes_);
  }

  DeviceId device() const { return device_; }
  size_t bytes() const { return bytes_; }
  void* data() { return data_; }
  const void* data() const { return data_; }
  template <typename T>
  T* as() {
    return static_cast<T*>(data_);
  }
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
  }

 private:
  DeviceId device_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  void (*release_)(void*, size_t) = nullptr;
};

// A view of row-major activations on a device; the dtype is the device's activation dtype (float32
// on the CPU).
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next

  Matrix row_range(int64_t first, int64_t n) const {
    return {
        static_cast<std::byte*>(data) + static_cast<size_t>(first * stride) * dtype_bytes(dtype),
        dtype, n, cols, stride};
  }
  Matrix col_range(int64_t first, int64_t n) const {
    return {static_cast<std::byte*>(data) + static_cast<size_t>(first) * dtype_bytes(dtype), dtype,
            rows, n, stride};
  }
};

// A small vector of parameters on a device (norm weights, biases): float32 on the CPU.
struct Vector {
  const void* data = nullptr;  // null = absent
  int64_t size = 0;
};

// A token embedding table on a device, as stored in the checkpoint.
struct Table {
  const void* data = nullptr;  // (rows, cols)
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
};

// cos and sin of every position and frequency, float32, on a device.
struct RopeTable {
  const float* cos = nullptr;  // (n_positions, n_frequencies)
  const float* sin = nullptr;
  int64_t n_positions = 0;
  int32_t n_axes = 1;               // 3 for M-RoPE, 2 for vision towers
  int32_t sections[3] = {0, 0, 0};  // frequencies of each axis when there are several
};

// One step's packed sequences, in device memory (kernels/attention.h gives the shapes).
struct AttentionBatch {
  const int32_t* positions = nullptr;     // (n_axes, n_tokens)
  const int64_t* slots = nullptr;         // (n_tokens)
  const int32_t* block_tables = nullptr;  // (n_seqs, block_table_stride)
  const int32_t* cu_query = nullptr;      // (n_seqs + 1)
  const int32_t* context_lens = nullptr;  // (n_seqs)
  int64_t n_seqs = 0;
  int32_t block_table_stride = 0;
  // Sequences at the front that are known to have one query row each (decode); 0 is always right.
  int64_t n_single = 0;
};

// The most that a model is going to ask of ops, for devices that take their work areas beforehand.
struct OpsLimits {
  int64_t n_seqs = 0;       // of paged_attention()
  int64_t context_max = 0;  // tokens of a sequence
  int32_t n_heads = 0;
  int32_t d_head = 0;
  int64_t n_logit_rows = 0;  // of sample(); 0: not called
  int64_t vocab = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;

  // Takes the work areas of ops within these limits; may be called several times, by several
  // models. Errors: kUnsupported for what the device's kernels do not take, and allocate()'s.
  virtual Status reserve(const OpsLimits& /*limits*/) { return {}; }

  // y = epilogue(x W^T + bias), or y += with accumulate.
  virtual void linear(Matrix x, const PackedWeight& weight, Vector bias, Matrix y,
                      Epilogue epilogue = Epilogue::kNone, bool accumulate = false) = 0;
  virtual void rms_norm(Matrix x, Vector weight, float eps, Matrix y) = 0;
  virtual void layer_norm(Matrix x, Vector weight, Vector bias, float eps, Matrix y) = 0;
  // gate_up (n, 2 dim) -> y (n, dim)
  virtual void silu_mul(Matrix gate_up, Matrix y) = 0;
  // Rotates q inside qkv (n, (n_heads + 2 n_kv) d_head), rotates k, and appends k and v to one
  // layer's cache.
  virtual void rope_append(Matrix qkv, const RopeTable& table, const AttentionBatch& batch,
                           void* kv, const KvLayout& layout) = 0;
  // Rotates every head of x (n, n_heads d_head) in place; positions (n_axes, n), device memory.
  virtual void rope_rotate(Matrix x, int32_t d_head, const RopeTable& table,
                           const int32_t* positions) = 0;
  // q (n, n_heads d_head), causal over the cache -> out (n, n_heads d_head)
  virtual void paged_attention(Matrix q, const void* kv, const KvLayout& layout,
                               const AttentionBatch& batch, float scale, Matrix out) = 0;
  // qkv (n, 3 n_heads d_head): q, k, v; attends inside each segment of cu_seqlens (n_segments + 1,
  // device memory).
  virtual void packed_attention(Matrix qkv, const int32_t* cu_seqlens, int64_t n_segments,
                                int32_t n_heads, float scale, Matrix out) = 0;
  // ids (y.rows); -1 leaves the row alone.
  virtual void embed(const Table& table, const int32_t* ids, Matrix y) = 0;
  // The same from the rows of a packed weight: a head that is the embedding table, too.
  virtual void embed(const PackedWeight& table, const int32_t* ids, Matrix y) = 0;
  virtual void gather_rows(Matrix x, const int32_t* index, Matrix y) = 0;
  // y[i] += table[i % period]
  virtual void add_rows(Matrix y, Matrix table) = 0;
  // y += parts[0] + parts[1] + ..., added up in this order. The parts have y's shape and may stand
  // on other devices that this one reaches; whoever wrote them is finished.
  virtual void add_parts(std::span<const Matrix> parts, Matrix y) = 0;
  virtual void copy(Matrix from, Matrix to) = 0;
  // logits (n, >= vocab) float32; rows and out in host memory, filled when sync() has returned.
  virtual void sample(Matrix logits, int64_t vocab, std::span<const SamplingRow> rows,
                      std::span<SampledToken> out) = 0;
};

// A weight packed for a device, with the memory it lives in.
struct OwnedWeight {
  Buffer buffer;
  PackedWeight packed;
};

// Part of a weight in host memory, as the checkpoint has it: (n_rows, in_dim) row-major.
struct WeightPart {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // kF32, kF16 or kBF16
  int64_t n_rows = 0;
};

// A piece of a copy: `bytes` at `from` go to `to`. Pieces of one copy may come in any number and
// size, the targets do not overlap anything.
struct CopyRun {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
};

// Records the ops of a step once and replays them, where that is faster than calling them (a GPU's
// graphs). One thread at a time, the one that runs the device's ops.
class StepRecorder {
 public:
  virtual ~StepRecorder() = default;
  // The rows that a step of n rows is best padded to, so that few steps differ; 0: do not record.
  virtual int64_t padded_rows(int64_t n) const = 0;
  // Runs `work`, or what it did when it ran with the same key. REQUIRES: work's calls depend on
  // the key alone; it calls ops other than sample(), and nothing else of the device.
  virtual Status run(uint64_t key, FunctionRef<Status()> work) = 0;
};

// See device/host_device.h for the devices whose memory is the host's.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceId id() const = 0;
  virtual std::string description() const = 0;  // one line for people
  virtual DType activation_dtype() const = 0;
  virtual Ops& ops() = 0;

  // Memory of this device, 64-byte aligned, zeroed.
  virtual Result<Buffer> allocate(size_t bytes) = 0;
  // Stacks the parts' rows into one matrix of in_dim columns, stored as `dtype` (kF32, kBF16,
  // kF16).
  virtual Result<OwnedWeight> pack_weight(std::span<const WeightPart> parts, int64_t in_dim,
                                          DType dtype) = 0;
  // Small host data to the device, in order with the ops that follow.
  virtual void upload(const void* host, void* device, size_t bytes) = 0;
  // Device to host; complete when sync() has returned.
  virtual void download(const void* device, void* host, size_t bytes) = 0;
  // Waits for everything before it. A lost device or a failed op comes back here.
  virtual Status sync() = 0;

  // A recorder of steps of one model, which it must not outlive; null: steps are not recorded here.
  virtual std::unique_ptr<StepRecorder> make_recorder() { return nullptr; }
  // Memory that allocate() can still give, where the device has memory of its own; 0: it has not.
  virtual size_t free_bytes() { return 0; }

  // Called by the thread that is going to run this device's ops, before the first: pins it to the
  // device's core, makes the device current.
  virtual void attach_thread() {}

  // Copies beside the ops: any thread, on a stream of their own, complete when they return. They
  // wait for no op: whoever calls them knows that the sources are finished (sync()) and that nobody
  // else uses the targets. Errors: kUnavailable when a device is lost, else what the driver says.
  virtual Status read(std::span<const CopyRun> runs) = 0;   // this device's memory to the host's
  virtual Status write(std::span<const CopyRun> runs) = 0;  // the host's memory to this device's
  // Whether copy_from(other) may be tried. That it works is only known from a copy that was looked
  // at (device/peer_link.h). True of the device itself.
  virtual bool reaches(const Device& other) const = 0;
  virtual Status copy_from(const Device& other, std::span<const CopyRun> runs) = 0;
  // What now stands in this device's memory, as memory_check.h defines it. Any thread.
  virtual Result<MemoryCheck> check(std::span<const MemoryRange> ranges, DType dtype) = 0;
  // Host memory that this device copies from and to fastest (a GPU's driver pins it); zeroed.
  virtual Result<Buffer> allocate_staging(size_t bytes) = 0;

  // The same for one piece.
  Status read(const void* device, void* host, size_t bytes) {
    const CopyRun run{device, host, bytes};
    return read(std::span(&run, 1));
  }
  Status write(const void* host, void* device, size_t bytes) {
    const CopyRun run{host, device, bytes};
    return write(std::span(&run, 1));
  }
  Status copy_from(const Device& other, const void* source, void* target, size_t bytes) {
    const CopyRun run{source, target, bytes};
    return copy_from(other, std::span(&run, 1));
  }
  Result<MemoryCheck> check(const void* data, size_t bytes, DType dtype) {
    const MemoryRange range{data, bytes};
    return check(std::span(&range, 1), dtype);
  }
};

}  // namespace hs
