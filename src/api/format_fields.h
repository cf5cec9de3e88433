// What a client says about the form of the answer: response_format of chats, text.format of
// responses, and structured_outputs, vLLM's field for patterns and choices.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "api/object_reader.h"
#include "base/status.h"
#include "grammar/grammar.h"

namespace hs {

struct AnswerForm {
  std::optional<Grammar::Language> language;  // absent: any text
  std::string text;                           // as Grammar::make takes it
  std::string param;                          // the field that says so, for complaints
};

// What names a schema or a function: letters, digits, _ and -.
constexpr size_t kFormNameBytesMax = 64;
bool is_form_name(std::string_view name);

// `text`: the whole body as it came, because the order of a schema's properties counts. Errors go
// to `body`.
void read_response_format(ObjectReader& body, std::string_view text, AnswerForm& form);
void read_text_format(ObjectReader& body, std::string_view text, AnswerForm& form);
void read_structured_outputs(ObjectReader& body, std::string_view text, AnswerForm& form);

// The part of a body at these keys, compact, with its members in the order in which they came; ""
// where there is none. The body is known to be valid.
std::string json_part_in_order(std::string_view text, std::initializer_list<const char*> keys);

// A grammar's complaint as one about the field.
Error form_error(const Error& error, const AnswerForm& form);

}  // namespace hs
