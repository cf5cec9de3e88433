// The calls in an answer, found while it comes: what is text, what a function's name, what its
// arguments. Nothing of a call's wrapper comes out, and nothing that may still become one.
//
// One of each choice; not thread-safe. What comes out joined does not depend on how the text was
// cut into pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_format.h"

namespace hs {

class ToolCallParser {
 public:
  struct Piece {
    enum class Kind {
      kText,
      kCall,       // a call begins: `text` is the function's name
      kArguments,  // more of the arguments of the last call
      kEnd         // which are complete
    } kind = Kind::kText;
    std::string text;
    bool operator==(const Piece&) const = default;
  };

  // `only_first`: a call can only begin the text, as format.only_first says for all texts.
  ToolCallParser(const ToolFormat& format, bool only_first);

  // What became certain. White space between text and a call is nobody's.
  std::vector<Piece> push(std::string_view text);
  // The text has ended: what was held back and is no part of a call.
  std::vector<Piece> finish();

  size_t n_calls() const { return n_calls_; }
  // Whether there is a call, and the arguments of all are complete.
  bool complete() const { return n_calls_ > 0 && !cut_; }

 private:
  enum class State { kStart, kText, kHeader, kArguments, kClosing, kPlain };

  bool step(std::vector<Piece>& out);  // false: more text is needed
  bool step_start();
  bool step_text(std::vector<Piece>& out);
  bool step_header(std::vector<Piece>& out);
  bool step_arguments(std::vector<Piece>& out);
  bool step_closing();
  void say(std::string text, std::vector<Piece>& out);
  bool no_call(std::vector<Piece>& out);
  std::string_view head() const;
  bool is_too_long() const;

  const ToolFormat format_;
  const bool only_first_;
  State state_;
  std::string held_;    // not yet read
  std::string opened_;  // the opening that was read, and white space before it
  size_t n_calls_ = 0;
  bool cut_ = false;   // the last call has begun and is not complete
  bool said_ = false;  // text has come since the last call
  size_t depth_ = 0;   // of brackets in the arguments
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace hs
