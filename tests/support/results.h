// Results in test messages.
#pragma once

#include <string>

#include "base/status.h"

namespace hs::test {

// The error's text, or "" when there is none.
template <typename T>
std::string message_of(const std::expected<T, Error>& result) {
  return result.has_value() ? std::string() : result.error().message;
}

}  // namespace hs::test
