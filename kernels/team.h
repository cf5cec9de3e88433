// The CPU's "stream": a team of threads that kernels hand small blocks of work to.
// Kernels only see this interface; src/device/cpu implements it with real threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"

namespace hs {

class Team {
 public:
  virtual ~Team() = default;

  // Number of workers; worker ids are 0 .. size()-1, the caller is one of them.
  virtual int size() const = 0;

  // Calls work(item, worker) for each item 0 .. n_items-1, handed out dynamically, and returns when
  // all are done. Items may run in any order and on any worker. Not reentrant: work must not call
  // run().
  virtual void run(int64_t n_items, FunctionRef<void(int64_t item, int worker)> work) = 0;

  // A 64-byte aligned work area of one worker, at least `bytes` long. Contents are undefined; the
  // area is valid until the same worker asks for a larger one. Callable inside work() for the own
  // worker id, or outside run() for any.
  virtual std::byte* scratch(int worker, size_t bytes) = 0;
};

}  // namespace hs
