#include "text/tool_call_parser.h"

#include <algorithm>
#include <utility>

namespace hs {
namespace {

constexpr std::string_view kSpace = " \t\n\r";
constexpr size_t kSpaceBytesMax = 256;    // that are held back before a call
constexpr size_t kHeaderBytesMax = 1024;  // up to the arguments

// Reads parts of a text one after the other, and tells "not there" from "not there yet".
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void space() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }
  void literal(std::string_view wanted) {
    if (failed_ || cut_) return;
    const std::string_view rest = text_.substr(at_, wanted.size());
    if (!wanted.starts_with(rest)) {
      failed_ = true;
    } else if (rest.size() < wanted.size()) {
      cut_ = true;
    } else {
      at_ += wanted.size();
    }
  }
  void spaced(std::string_view wanted) {
    if (!failed_ && !cut_) space();
    literal(wanted);
  }
  // Up to a quotation mark, which is read, too. Names have no escapes.
  std::string_view name() {
    if (failed_ || cut_) return {};
    const size_t end = text_.find_first_of("\"\\", at_);
    if (end == text_.npos) {
      cut_ = true;
      return {};
    }
    if (text_[end] == '\\' || end == at_) {
      failed_ = true;
      return {};
    }
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  bool failed() const { return failed_; }
  bool cut() const { return cut_; }
  size_t at() const { return at_; }

 private:
  std::string_view text_;
  size_t at_ = 0;
  bool failed_ = false;
  bool cut_ = false;
};

void read_bare_opening(Scanner& scanner, const ToolFormat& format) {
  if (!format.opening.empty()) return scanner.spaced(format.opening);
  scanner.spaced("{");
  scanner.spaced("\"name\"");
}

// White space at the end of `text`, as far as it is held back.
size_t space_at_end(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpace);
  return std::min(last == text.npos ? text.size() : text.size() - last - 1, kSpaceBytesMax);
}

// How much of the end of `text` may still belong to a call.
size_t undecided(std::string_view text, std::string_view opening) {
  size_t n = std::min(opening.size() - 1, text.size());
  while (n > 0 && !text.ends_with(opening.substr(0, n))) --n;
  return n + space_at_end(text.substr(0, text.size() - n));
}

}  // namespace

ToolCallParser::ToolCallParser(const ToolFormat& format, bool only_first)
    : format_(format),
      only_first_(only_first || format.only_first),
      state_(only_first_ ? State::kStart : State::kText) {}

std::vector<ToolCallParser::Piece> ToolCallParser::push(std::string_view text) {
  held_ += text;
  std::vector<Piece> out;
  while (step(out)) {
  }
  return out;
}

std::vector<ToolCallParser::Piece> ToolCallParser::finish() {
  std::vector<Piece> out;
  const bool is_text = state_ == State::kStart || state_ == State::kText || state_ == State::kPlain;
  const bool is_gap = n_calls_ > 0 && !said_ && held_.find_first_not_of(kSpace) == held_.npos;
  if (is_text && !is_gap) say(std::move(held_), out);
  held_.clear();
  return out;
}

// What is looked at for one part of a wrapper, whatever else is there already.
std::string_view ToolCallParser::head() const {
  return std::string_view(held_).substr(0, kHeaderBytesMax);
}

bool ToolCallParser::is_too_long() const {
  return held_.size() >= kHeaderBytesMax;
}

bool ToolCallParser::step(std::vector<Piece>& out) {
  if (held_.empty()) return false;
  switch (state_) {
    case State::kStart:
      return step_start();
    case State::kText:
      return step_text(out);
    case State::kHeader:
      return step_header(out);
    case State::kArguments:
      return step_arguments(out);
    case State::kClosing:
      return step_closing();
    case State::kPlain:
      break;
  }
  say(std::exchange(held_, {}), out);
  return false;
}

void ToolCallParser::say(std::string text, std::vector<Piece>& out) {
  if (text.empty()) return;
  said_ = true;
  if (!out.empty() && out.back().kind == Piece::Kind::kText)
    out.back().text += text;
  else
    out.push_back({Piece::Kind::kText, std::move(text)});
}

// Only here can a call begin the text.
bool ToolCallParser::step_start() {
  Scanner scanner(head());
  if (!format_.control.empty()) {
    Scanner with_control(head());
    with_control.spaced(format_.control);
    if (!with_control.failed()) scanner = with_control;
  }
  const size_t begin = scanner.at();
  read_bare_opening(scanner, format_);
  if (scanner.cut() && !is_too_long()) return false;
  if (scanner.failed() || scanner.cut()) {
    state_ = State::kPlain;
    return true;
  }
  const size_t end = format_.opening.empty() ? begin : scanner.at();
  opened_ = held_.substr(0, end);
  held_.erase(0, end);
  state_ = State::kHeader;
  return true;
}

bool ToolCallParser::step_text(std::vector<Piece>& out) {
  const size_t at = held_.find(format_.opening);
  if (at == held_.npos) {
    const size_t n_sure = held_.size() - undecided(held_, format_.opening);
    say(held_.substr(0, n_sure), out);
    held_.erase(0, n_sure);
    return false;
  }
  const size_t n_sure = at - space_at_end(std::string_view(held_).substr(0, at));
  say(held_.substr(0, n_sure), out);
  opened_ = held_.substr(n_sure, at + format_.opening.size() - n_sure);
  held_.erase(0, at + format_.opening.size());
  state_ = State::kHeader;
  return true;
}

bool ToolCallParser::step_header(std::vector<Piece>& out) {
  Scanner scanner(head());
  scanner.spaced("{");
  scanner.spaced("\"name\"");
  scanner.spaced(":");
  scanner.spaced("\"");
  const std::string name(scanner.name());
  scanner.spaced(",");
  scanner.spaced("\"" + std::string(format_.arguments) + "\"");
  scanner.spaced(":");
  scanner.spaced("{");
  if (scanner.cut() && !is_too_long()) return false;
  if (scanner.failed() || scanner.cut()) return no_call(out);
  out.push_back({Piece::Kind::kCall, name});
  ++n_calls_;
  cut_ = true;
  said_ = false;
  depth_ = 0;
  in_string_ = escaped_ = false;
  held_.erase(0, scanner.at() - 1);
  state_ = State::kArguments;
  return true;
}

// What looked like a call is text after all.
bool ToolCallParser::no_call(std::vector<Piece>& out) {
  say(std::exchange(opened_, {}), out);
  state_ = only_first_ ? State::kPlain : State::kText;
  return true;
}

bool ToolCallParser::step_arguments(std::vector<Piece>& out) {
  size_t end = 0;
  bool complete = false;
  while (end < held_.size() && !complete) {
    const char c = held_[end++];
    if (in_string_) {
      if (std::exchange(escaped_, false)) continue;
      escaped_ = c == '\\';
      in_string_ = c != '"';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      complete = --depth_ == 0;
    }
  }
  out.push_back({Piece::Kind::kArguments, held_.substr(0, end)});
  held_.erase(0, end);
  if (!complete) return false;
  out.push_back({Piece::Kind::kEnd, ""});
  cut_ = false;
  state_ = State::kClosing;
  return true;
}

bool ToolCallParser::step_closing() {
  Scanner scanner(head());
  scanner.spaced("}");
  if (!format_.closing.empty()) scanner.spaced(format_.closing);
  if (scanner.cut() && !is_too_long()) return false;
  if (!scanner.failed() && !scanner.cut()) held_.erase(0, scanner.at());
  state_ = format_.opening.empty() ? State::kPlain : State::kText;
  return true;
}

}  // namespace hs
