// Reads the expressions in the tags of a template. Each becomes a function that computes it.
// Inside of pretrained only.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/pretrained/jinja_lexer.h"
#include "tern/pretrained/jinja_run.h"

namespace tern::pretrained::jinja {

class ExpressionParser {
 protected:
  using Kind = Token::Kind;
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // Tokens.

  const Token& token() const { return tokens_[at_]; }
  bool is_end() const { return token().kind == Kind::end; }
  bool is(Kind kind, std::string_view text, size_t ahead = 0) const {
    const Token& t = tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
    return t.kind == kind && t.text == text;
  }
  bool is_symbol(std::string_view text) const { return is(Kind::symbol, text); }
  bool take(Kind kind, std::string_view text) {
    const bool found = is(kind, text);
    at_ += found;
    return found;
  }
  bool take_symbol(std::string_view text) { return take(Kind::symbol, text); }
  bool take_word(std::string_view text) { return take(Kind::name, text); }
  /// The operator among these that comes next, taken; else empty.
  std::string take_one(std::initializer_list<std::string_view> symbols) {
    for (const std::string_view symbol : symbols)
      if (take_symbol(symbol)) {
        count_operator();
        return std::string(symbol);
      }
    return "";
  }
  void expect_symbol(std::string_view text) {
    if (!take_symbol(text)) fail_here(fmt::format("'{}'", text));
  }
  std::string expect_name() {
    if (token().kind != Kind::name) fail_here("a name");
    return tokens_[at_++].text;
  }
  void close() {
    if (token().kind != Kind::close) fail_here("the end of the tag");
    ++at_;
  }
  [[noreturn]] void fail_here(const std::string& expected = "") const;
  /// Error: a tag has too many operators, whose functions would nest too deeply.
  void count_operator();

  // What statements contain.

  Expression parse_expression();
  /// Expressions between commas give a list. Without `with_if`, the first one ends before an "if".
  Expression parse_tuple(bool with_if = true);
  /// The filter whose name comes next, applied to a subject.
  Expression parse_filter(Expression subject);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int operators_ = 0;

 private:
  struct Arguments {
    std::vector<Expression> given;
    std::vector<std::pair<std::string, Expression>> named;
    Call operator()(Run& run, const std::string& what) const;
  };
  using Level = Expression (ExpressionParser::*)();

  Expression parse_or();
  Expression parse_and();
  Expression parse_not();
  std::string take_comparison();
  Expression parse_compare();
  Expression parse_chain(Level inner, std::initializer_list<std::string_view> signs);
  Expression parse_sum();
  Expression parse_concat();
  Expression parse_product();
  Expression parse_power();
  Expression parse_filtered();
  Expression parse_signed();
  Expression parse_test(Expression subject);
  Arguments parse_arguments();
  Expression parse_postfix();
  Expression parse_call();
  Expression parse_member(Expression of);
  Expression parse_element(Expression of);
  Expression parse_primary();
  Expression parse_name();
  Expression parse_dict();
};

}  // namespace tern::pretrained::jinja
