// The trace a request belongs to, as its client says (W3C Trace Context).
#pragma once

#include <string>
#include <string_view>

namespace hs {

// The 32 hexadecimal digits of a traceparent header ("00-TRACE-SPAN-FLAGS"); "" where it is none.
std::string trace_id_of(std::string_view traceparent);

}  // namespace hs
