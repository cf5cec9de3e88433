// Broken promises of our own code stop the process with file, line and both values.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace hs {

// Prints "file:line: check failed: text" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, std::string_view text);

template <typename A, typename B>
[[noreturn]] void check_op_failed(const char* file, int line, const char* text, const A& a,
                                  const B& b) {
  check_failed(file, line, fmt::format("{} ({} against {})", text, a, b));
}

}  // namespace hs

#define HS_CHECK(condition)                               \
  do {                                                    \
    if (!(condition)) [[unlikely]]                        \
      ::hs::check_failed(__FILE__, __LINE__, #condition); \
  } while (false)

#define HS_CHECK_OP(a, op, b)                                                   \
  do {                                                                          \
    const auto& hs_a = (a);                                                     \
    const auto& hs_b = (b);                                                     \
    if (!(hs_a op hs_b)) [[unlikely]]                                           \
      ::hs::check_op_failed(__FILE__, __LINE__, #a " " #op " " #b, hs_a, hs_b); \
  } while (false)
#define HS_CHECK_EQ(a, b) HS_CHECK_OP(a, ==, b)
#define HS_CHECK_LE(a, b) HS_CHECK_OP(a, <=, b)
#define HS_CHECK_LT(a, b) HS_CHECK_OP(a, <, b)
#define HS_CHECK_GE(a, b) HS_CHECK_OP(a, >=, b)
#define HS_CHECK_GT(a, b) HS_CHECK_OP(a, >, b)
