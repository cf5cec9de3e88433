// Expected failures as values: what a user, a file or a device may cause. Our own bugs are
// HS_CHECKs (base/check.h).
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace hs {

// What kind of failure it is; callers map it to an HTTP status or an exit code.
enum class ErrorKind {
  kInvalidArgument,    // the caller's input is wrong and stays wrong
  kNotFound,           // a named thing is not there
  kTooLarge,           // over a configured limit
  kUnsupported,        // well formed, but not something this build does
  kResourceExhausted,  // no room now (queue, memory, disk)
  kUnavailable,        // not ready, draining, or a device is lost
  kDataLoss,           // a file is damaged or contradicts itself
  kIo,                 // the operating system refused
  kCancelled,          // the client left or an operator cancelled
  kInternal,           // an engine fault
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  // one clear sentence for a person
  std::string code;     // stable machine word, e.g. "context_length_exceeded"; may be empty
  std::string param;    // the field at fault, e.g. "messages[0].content"; may be empty
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

// return fail(ErrorKind::kIo, "cannot open x");
[[nodiscard]] inline std::unexpected<Error> fail(ErrorKind kind, std::string message,
                                                 std::string code = {}, std::string param = {}) {
  return std::unexpected(Error{kind, std::move(message), std::move(code), std::move(param)});
}

}  // namespace hs
