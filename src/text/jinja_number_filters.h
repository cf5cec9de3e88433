// The filters of a template that make or change numbers, as in Jinja2.
#pragma once

#include "text/jinja_interpreter.h"

namespace hs::jinja {

Value filter_int(Interpreter& in, const Value& input, const CallArgs& args);
Value filter_float(Interpreter& in, const Value& input, const CallArgs& args);
Value filter_abs(Interpreter& in, const Value& input, const CallArgs& args);
Value filter_round(Interpreter& in, const Value& input, const CallArgs& args);

}  // namespace hs::jinja
