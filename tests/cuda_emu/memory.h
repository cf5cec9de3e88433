// Memory for emulated kernels with a mebibyte of unmapped addresses on both sides: it ends where a
// page ends, so the first access behind it faults.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace hs::cuda_emu {

constexpr unsigned char kPoison = 0xFF;  // a NaN in every floating-point format

// `bytes` of poisoned memory, aligned to `alignment` (a power of two, at most a page). What the
// alignment leaves over is filled with a pattern that check() looks at.
class GuardedMemory {
 public:
  GuardedMemory(size_t bytes, size_t alignment);
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  ~GuardedMemory();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void poison();
  // Whether nobody wrote beside the memory.
  bool intact() const;

 private:
  std::byte* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// An array in "device" memory; 16-byte aligned, as the kernels' widest access.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : memory_(n * sizeof(T), 16), n_(n) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    if (n_ > 0) std::memcpy(memory_.data(), values.data(), n_ * sizeof(T));
  }
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  size_t size() const { return n_; }
  std::vector<T> get() const {
    std::vector<T> values(n_);
    if (n_ > 0) std::memcpy(values.data(), memory_.data(), n_ * sizeof(T));
    return values;
  }
  bool intact() const { return memory_.intact(); }

 private:
  GuardedMemory memory_;
  size_t n_;
};

}  // namespace hs::cuda_emu
