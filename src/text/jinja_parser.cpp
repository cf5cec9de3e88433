#include "text/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja_expr_parser.h"

namespace hs::jinja {
namespace {

using Kind = Token::Kind;

constexpr int kBlockNestingMax = 60;

class StatementParser {
 public:
  explicit StatementParser(std::string_view source) : in_(tokenize(source)) {}

  Body run() {
    Body body = statements({});
    if (in_.current().kind != Kind::kEnd)
      in_.fail_here("unexpected end of the template's statements");
    return body;
  }

 private:
  using Ends = std::vector<std::string_view>;

  std::unique_ptr<Stmt> make(Stmt::Kind kind) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = in_.current().line;
    return stmt;
  }

  // Statements up to a tag whose name is in `ends`; that name is current then. Without ends: up to
  // the end.
  Body statements(const Ends& ends) {
    if (++nesting_ > kBlockNestingMax) in_.fail_here("statements are nested too deeply");
    Body body;
    while (true) {
      const Kind kind = in_.current().kind;
      if (kind == Kind::kData) {
        auto stmt = make(Stmt::Kind::kData);
        stmt->text = in_.take().text;
        body.push_back(std::move(stmt));
      } else if (kind == Kind::kVariableBegin) {
        in_.take();
        auto stmt = make(Stmt::Kind::kOutput);
        stmt->expr = in_.tuple_or_expression();
        in_.expect(Kind::kVariableEnd, "end of print statement");
        body.push_back(std::move(stmt));
      } else if (kind == Kind::kBlockBegin) {
        in_.take();
        const bool ended = std::ranges::any_of(
            ends, [&](std::string_view end) { return in_.current().is_name(end); });
        if (ended) break;
        body.push_back(statement());
      } else {
        if (!ends.empty())
          in_.fail_here(fmt::format("unexpected end of template, expected '{}'", ends.back()));
        break;
      }
    }
    --nesting_;
    return body;
  }

  void block_end() { in_.expect(Kind::kBlockEnd, "end of statement block"); }

  // A body and its end tag.
  Body body_until(std::string_view end) {
    Body body = statements({end});
    in_.take();
    block_end();
    return body;
  }

  std::unique_ptr<Stmt> statement() {
    if (in_.current().kind != Kind::kName) in_.fail_here("tag name expected");
    const std::string tag = in_.current().text;
    if (tag == "if") return if_statement();
    if (tag == "for") return for_statement();
    if (tag == "set") return set_statement();
    if (tag == "macro") return macro_statement();
    if (tag == "call") return call_statement();
    if (tag == "filter") return filter_statement();
    if (tag == "with") return with_statement();
    if (tag == "generation") {
      auto stmt = make(Stmt::Kind::kBlock);
      in_.take();
      block_end();
      stmt->body = body_until("endgeneration");
      return stmt;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) in_.fail_here(fmt::format("'{}' outside of a loop", tag));
      auto stmt = make(tag == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue);
      in_.take();
      block_end();
      return stmt;
    }
    in_.fail_here(fmt::format("unknown or unsupported tag '{}'", tag));
  }

  std::unique_ptr<Stmt> if_statement() {
    auto stmt = make(Stmt::Kind::kIf);
    in_.take();
    while (true) {
      ExprPtr condition = in_.tuple_or_expression(false);
      block_end();
      Body body = statements({"elif", "else", "endif"});
      stmt->branches.emplace_back(std::move(condition), std::move(body));
      if (!in_.accept_name("elif")) break;
    }
    if (in_.accept_name("else")) {
      block_end();
      stmt->otherwise = statements({"endif"});
    }
    in_.take();
    block_end();
    return stmt;
  }

  std::unique_ptr<Stmt> for_statement() {
    auto stmt = make(Stmt::Kind::kFor);
    in_.take();
    stmt->target = in_.target(false);
    if (!in_.accept_name("in")) in_.fail_here("expected 'in'");
    stmt->expr = in_.tuple_or_expression(false);
    if (in_.accept_name("if")) stmt->condition = in_.expression();
    if (in_.current().is_name("recursive")) in_.fail_here("recursive loops are not supported");
    block_end();
    ++loops_;
    stmt->body = statements({"else", "endfor"});
    --loops_;
    if (in_.accept_name("else")) {
      block_end();
      stmt->otherwise = statements({"endfor"});
    }
    in_.take();
    block_end();
    return stmt;
  }

  std::unique_ptr<Stmt> set_statement() {
    auto stmt = make(Stmt::Kind::kSet);
    in_.take();
    stmt->target = in_.target(true);
    if (in_.accept_operator("=")) {
      stmt->expr = in_.tuple_or_expression();
      block_end();
      return stmt;
    }
    stmt->kind = Stmt::Kind::kSetBlock;
    if (in_.current().is_operator("|")) stmt->expr = in_.filters(nullptr, false);
    block_end();
    stmt->body = body_until("endset");
    return stmt;
  }

  // The body of a macro or caller, with what it uses.
  void macro_body(Macro& macro, std::string_view end) {
    const size_t names_before = in_.names_used().size();
    const int loops = std::exchange(loops_, 0);
    macro.body = body_until(end);
    loops_ = loops;
    const auto& names = in_.names_used();
    const auto uses = [&](std::string_view name) {
      return std::find(names.begin() + static_cast<std::ptrdiff_t>(names_before), names.end(),
                       name) != names.end();
    };
    macro.uses_varargs = uses("varargs");
    macro.uses_kwargs = uses("kwargs");
    macro.uses_caller = uses("caller");
  }

  std::unique_ptr<Stmt> macro_statement() {
    auto stmt = make(Stmt::Kind::kMacro);
    in_.take();
    stmt->macro = std::make_unique<Macro>();
    stmt->macro->name = in_.expect_name();
    in_.parameters(*stmt->macro);
    block_end();
    macro_body(*stmt->macro, "endmacro");
    return stmt;
  }

  std::unique_ptr<Stmt> call_statement() {
    auto stmt = make(Stmt::Kind::kCall);
    in_.take();
    stmt->macro = std::make_unique<Macro>();
    stmt->macro->name = "caller";
    if (in_.current().is_operator("(")) in_.parameters(*stmt->macro);
    stmt->expr = in_.expression();
    if (stmt->expr->kind != Expr::Kind::kCall) in_.fail_here("expected a call");
    block_end();
    macro_body(*stmt->macro, "endcall");
    return stmt;
  }

  std::unique_ptr<Stmt> filter_statement() {
    auto stmt = make(Stmt::Kind::kFilter);
    in_.take();
    stmt->expr = in_.filters(nullptr, true);
    block_end();
    stmt->body = body_until("endfilter");
    return stmt;
  }

  std::unique_ptr<Stmt> with_statement() {
    auto stmt = make(Stmt::Kind::kWith);
    in_.take();
    while (in_.current().kind != Kind::kBlockEnd) {
      if (!stmt->assignments.empty()) in_.expect_operator(",");
      Target target;
      target.name = in_.expect_name();
      in_.expect_operator("=");
      stmt->assignments.emplace_back(std::move(target), in_.expression());
    }
    block_end();
    stmt->body = body_until("endwith");
    return stmt;
  }

  ExprParser in_;
  int nesting_ = 0;
  int loops_ = 0;
};

}  // namespace

Body parse(std::string_view source) {
  return StatementParser(source).run();
}

}  // namespace hs::jinja
