// Template source to its tree. Grammar: Jinja2 3.1, without inheritance and imports.
#pragma once

#include <string_view>

#include "text/jinja_ast.h"

namespace hs::jinja {

// Throws TemplateError with the line; an unknown tag, filter or test is one.
Body parse(std::string_view source);

// By name; null if there is none.
FilterFn find_filter(std::string_view name);
TestFn find_test(std::string_view name);

}  // namespace hs::jinja
