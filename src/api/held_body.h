// Request bodies that wait for a worker or are prepared by one, counted together: each may be
// hundreds of MiB, and as many as the queue is long may wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace hs {

// Any thread.
class HeldBodies {
 public:
  explicit HeldBodies(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Whether a body of n bytes may wait beside those that do. One alone always may: the HTTP
  // server's own limit bounds it.
  bool has_room(size_t n) const {
    const size_t held = bytes();
    return held == 0 || (n <= bytes_max_ && held <= bytes_max_ - n);
  }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  friend class HeldBody;
  const size_t bytes_max_;
  std::atomic<size_t> bytes_ = 0;
};

// One body. It is counted until it is destroyed, also after release(), because what was read from
// it (pictures, above all) is as large. One thread at a time.
class HeldBody {
 public:
  HeldBody(std::string text, std::shared_ptr<HeldBodies> all)
      : text_(std::move(text)), all_(std::move(all)), counted_(text_.size()) {
    all_->bytes_.fetch_add(counted_, std::memory_order_relaxed);
  }
  ~HeldBody() { all_->bytes_.fetch_sub(counted_, std::memory_order_relaxed); }
  HeldBody(const HeldBody&) = delete;
  HeldBody& operator=(const HeldBody&) = delete;

  std::string_view text() const { return text_; }
  // Counts n more bytes that belong to the request; false where they have no room any more.
  bool grow(size_t n) {
    if (!all_->has_room(n)) return false;
    counted_ += n;
    all_->bytes_.fetch_add(n, std::memory_order_relaxed);
    return true;
  }
  // Frees the bytes, which whoever reads the body does as soon as it is read.
  void release() { text_ = std::string(); }

 private:
  std::string text_;
  std::shared_ptr<HeldBodies> all_;
  size_t counted_;
};

}  // namespace hs
