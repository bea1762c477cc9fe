// Reads expressions by the grammar of jinja2/parser.py.
#include "tern/pretrained/jinja_expressions.h"

#include <fmt/core.h>

#include "tern/core/base/error.h"

namespace tern::pretrained::jinja {
namespace {

constexpr int kMostOperators = 500;  // in a tag; each may be a level of nesting

Expression list_of(std::vector<Expression> all) {
  return Expression([all = std::move(all)](Run& run) {
    Items items;
    for (const Expression& e : all) items.push_back(e(run));
    run.budget.take(items.size() * sizeof(Value));
    return Value::list(std::move(items));
  });
}

Expression negated(Expression e) {
  return Expression([e = std::move(e)](Run& run) -> Value { return !e(run).truth(); });
}

bool compare(Run& run, const std::string& sign, const Value& a, const Value& b) {
  if (sign == "in") return contains(run.budget, b, a);
  if (sign == "not in") return !contains(run.budget, b, a);
  if (sign == "==") return equal(run.budget, a, b);
  if (sign == "!=") return !equal(run.budget, a, b);
  if (sign == "<") return less(run.budget, a, b);
  if (sign == ">") return less(run.budget, b, a);
  // A number that is not a number is in no order.
  const bool same = equal(run.budget, a, b);
  return same || (sign == "<=" ? less(run.budget, a, b) : less(run.budget, b, a));
}

Expression constant(Value value) {
  return Expression([value = std::move(value)](Run&) { return value; });
}

}  // namespace

void ExpressionParser::fail_here(const std::string& expected) const {
  fail_at(token().line, expected.empty()
                            ? fmt::format("unexpected '{}'", token().text)
                            : fmt::format("expected {}, got '{}'", expected, token().text));
}

void ExpressionParser::count_operator() {
  if (++operators_ > kMostOperators)
    fail_at(token().line, fmt::format("a tag has more than {} operators", kMostOperators));
}

Call ExpressionParser::Arguments::operator()(Run& run, const std::string& what) const {
  Items values;
  Members names;
  for (const Expression& e : given) values.push_back(e(run));
  for (const auto& [name, e] : named) names.emplace_back(name, e(run));
  return Call(run, what, std::move(values), std::move(names));
}

// Expressions, from the weakest operator to the strongest.

/// Expressions between commas give a list.
Expression ExpressionParser::parse_tuple(bool with_if) {
  Expression first = with_if ? parse_expression() : parse_or();
  if (!is_symbol(",")) return first;
  std::vector<Expression> all = {std::move(first)};
  while (take_symbol(",") && token().kind != Kind::close && !is_symbol(")"))
    all.push_back(with_if ? parse_expression() : parse_or());
  return list_of(std::move(all));
}

Expression ExpressionParser::parse_expression() {
  Expression value = parse_or();
  while (take_word("if")) {
    count_operator();
    Expression condition = parse_or();
    Expression otherwise = take_word("else") ? parse_expression() : constant({});
    value = Expression([v = std::move(value), c = std::move(condition), o = std::move(otherwise)](
                           Run& run) { return c(run).truth() ? v(run) : o(run); });
  }
  return value;
}

Expression ExpressionParser::parse_or() {
  Expression left = parse_and();
  while (take_word("or")) {
    count_operator();
    left = Expression([l = std::move(left), r = parse_and()](Run& run) {
      Value value = l(run);
      return value.truth() ? value : r(run);
    });
  }
  return left;
}

Expression ExpressionParser::parse_and() {
  Expression left = parse_not();
  while (take_word("and")) {
    count_operator();
    left = Expression([l = std::move(left), r = parse_not()](Run& run) {
      Value value = l(run);
      return value.truth() ? r(run) : value;
    });
  }
  return left;
}

Expression ExpressionParser::parse_not() {
  if (!take_word("not")) return parse_compare();
  count_operator();
  return negated(parse_not());
}
std::string ExpressionParser::take_comparison() {
  const bool negated = is(Kind::name, "not") && is(Kind::name, "in", 1);
  if (negated) ++at_;
  if (!take_word("in")) return take_one({"==", "!=", "<=", ">=", "<", ">"});
  count_operator();
  return negated ? "not in" : "in";
}

/// a < b < c means a < b and b < c.
Expression ExpressionParser::parse_compare() {
  Expression first = parse_sum();
  std::vector<std::pair<std::string, Expression>> rest;
  for (std::string sign; !(sign = take_comparison()).empty();) {
    rest.emplace_back(std::move(sign), parse_sum());
  }
  if (rest.empty()) return first;
  return Expression([first = std::move(first), rest = std::move(rest)](Run& run) -> Value {
    Value left = first(run);
    for (const auto& [sign, e] : rest) {
      Value right = e(run);
      if (!compare(run, sign, left, right)) return false;
      left = std::move(right);
    }
    return true;
  });
}

Expression ExpressionParser::parse_chain(Level inner,
                                         std::initializer_list<std::string_view> signs) {
  Expression left = (this->*inner)();
  for (std::string sign; !(sign = take_one(signs)).empty();) {
    Expression right = (this->*inner)();
    left = Expression([l = std::move(left), r = std::move(right), sign](Run& run) {
      const Value a = l(run), b = r(run);
      return arithmetic(run, sign, a, b);
    });
  }
  return left;
}
Expression ExpressionParser::parse_sum() {
  return parse_chain(&ExpressionParser::parse_concat, {"+", "-"});
}
Expression ExpressionParser::parse_concat() {
  return parse_chain(&ExpressionParser::parse_product, {"~"});
}
Expression ExpressionParser::parse_product() {
  return parse_chain(&ExpressionParser::parse_power, {"*", "/", "//", "%"});
}
Expression ExpressionParser::parse_power() {
  return parse_chain(&ExpressionParser::parse_filtered, {"**"});
}

Expression ExpressionParser::parse_filtered() {
  Expression e = parse_signed();
  for (;;) {
    if (take_symbol("|"))
      e = parse_filter(std::move(e));
    else if (take_word("is"))
      e = parse_test(std::move(e));
    else
      return e;
  }
}

Expression ExpressionParser::parse_signed() {
  const std::string sign = take_one({"-", "+"});
  if (sign.empty()) return parse_postfix();
  return Expression(
      [e = parse_signed(), sign](Run& run) { return arithmetic(run, sign, int64_t{0}, e(run)); });
}

Expression ExpressionParser::parse_filter(Expression subject) {
  count_operator();
  std::string name = expect_name();
  Arguments arguments = is_symbol("(") ? parse_arguments() : Arguments{};
  return Expression(
      [s = std::move(subject), name = std::move(name), arguments = std::move(arguments)](Run& run) {
        const Value value = s(run);
        Call call = arguments(run, name);
        return call_filter(name, value, call);
      });
}

Expression ExpressionParser::parse_test(Expression subject) {
  count_operator();
  const bool inverted = take_word("not");
  std::string name = expect_name();
  Arguments arguments;
  const Kind next = token().kind;
  const bool word_ends = is(Kind::name, "and") || is(Kind::name, "or") || is(Kind::name, "else") ||
                         is(Kind::name, "if");
  if (is_symbol("("))
    arguments = parse_arguments();
  else if ((next == Kind::name && !word_ends) || next == Kind::string || next == Kind::integer ||
           next == Kind::real || is_symbol("[") || is_symbol("{"))
    arguments.given.push_back(parse_postfix());
  Expression test([s = std::move(subject), name = std::move(name),
                   arguments = std::move(arguments)](Run& run) -> Value {
    const Value value = s(run);
    Call call = arguments(run, name);
    return call_test(name, value, call);
  });
  return inverted ? negated(std::move(test)) : test;
}

ExpressionParser::Arguments ExpressionParser::parse_arguments() {
  Arguments arguments;
  expect_symbol("(");
  while (!take_symbol(")")) {
    if (is(Kind::symbol, "=", 1)) {
      std::string name = expect_name();
      expect_symbol("=");
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!arguments.named.empty()) fail_here("a named argument");
      arguments.given.push_back(parse_expression());
    }
    if (!is_symbol(")")) expect_symbol(",");
  }
  return arguments;
}

/// A value with its members, elements and calls.
Expression ExpressionParser::parse_postfix() {
  Expression e;
  if (token().kind == Kind::name && is(Kind::symbol, "(", 1))
    e = parse_call();
  else
    e = parse_primary();
  for (;;) {
    if (take_symbol("."))
      e = parse_member(std::move(e));
    else if (take_symbol("["))
      e = parse_element(std::move(e));
    else if (is_symbol("("))
      fail_at(token().line, "only macros, functions and methods can be called");
    else
      return e;
    count_operator();
  }
}

Expression ExpressionParser::parse_call() {
  count_operator();
  std::string name = expect_name();
  return Expression([name = std::move(name), arguments = parse_arguments()](Run& run) {
    const Value value = run.look_up(name);
    check(value.defined().is_callable(), "'{}' is a {}, which cannot be called", name,
          value.kind());
    Call call = arguments(run, name);
    return value.macro() ? call_macro(*value.macro(), call) : call_function(name, call);
  });
}

Expression ExpressionParser::parse_member(Expression of) {
  if (token().kind == Kind::integer) {
    const Value index = tokens_[at_++].integer;
    return Expression(
        [of = std::move(of), index](Run& run) { return element(run.budget, of(run), index); });
  }
  std::string name = expect_name();
  if (!is_symbol("("))
    return Expression([of = std::move(of), name = Value(std::move(name))](Run& run) {
      return element(run.budget, of(run), name);
    });
  return Expression(
      [of = std::move(of), name = std::move(name), arguments = parse_arguments()](Run& run) {
        const Value value = of(run);
        Call call = arguments(run, name);
        return call_method(name, value, call);
      });
}

Expression ExpressionParser::parse_element(Expression of) {
  Expression bounds[3];
  bool slices = false;
  for (Expression& bound : bounds) {
    if (!is_symbol(":") && !is_symbol("]")) bound = parse_expression();
    if (!take_symbol(":")) break;
    slices = true;
  }
  expect_symbol("]");
  if (!slices && !bounds[0]) fail_here("an expression");
  if (!slices)
    return Expression([of = std::move(of), key = std::move(bounds[0])](Run& run) {
      const Value value = of(run);
      return element(run.budget, value, key(run));
    });
  for (Expression& bound : bounds)
    if (!bound) bound = constant({});
  return Expression([of = std::move(of), from = std::move(bounds[0]), to = std::move(bounds[1]),
                     step = std::move(bounds[2])](Run& run) {
    const Value value = of(run), a = from(run), b = to(run);
    return slice(run.budget, value, a, b, step(run));
  });
}

Expression ExpressionParser::parse_primary() {
  const Token& t = token();
  if (t.kind == Kind::name) return parse_name();
  if (t.kind == Kind::string) {
    std::string text;
    while (token().kind == Kind::string) text += tokens_[at_++].text;
    return constant(std::move(text));
  }
  if (t.kind == Kind::integer || t.kind == Kind::real) {
    ++at_;
    return constant(t.kind == Kind::real ? Value(t.real) : Value(t.integer));
  }
  count_operator();
  if (take_symbol("(")) {
    if (take_symbol(")")) return list_of({});
    Expression inner = parse_tuple();
    expect_symbol(")");
    return inner;
  }
  if (take_symbol("[")) {
    std::vector<Expression> all;
    while (!take_symbol("]")) {
      all.push_back(parse_expression());
      if (!is_symbol("]")) expect_symbol(",");
    }
    return list_of(std::move(all));
  }
  if (take_symbol("{")) return parse_dict();
  fail_here();
}

Expression ExpressionParser::parse_name() {
  std::string name = expect_name();
  if (name == "true" || name == "True") return constant(true);
  if (name == "false" || name == "False") return constant(false);
  if (name == "none" || name == "None") return constant(None{});
  return Expression([name = std::move(name)](Run& run) { return run.look_up(name); });
}

Expression ExpressionParser::parse_dict() {
  std::vector<std::pair<Expression, Expression>> all;
  while (!take_symbol("}")) {
    Expression key = parse_expression();
    expect_symbol(":");
    all.emplace_back(std::move(key), parse_expression());
    if (!is_symbol("}")) expect_symbol(",");
  }
  return Expression([all = std::move(all)](Run& run) {
    Entries entries;
    for (const auto& [key, value] : all) {
      Value name = key(run);
      entries.emplace_back(std::move(name), value(run));
    }
    return Value::dict(run.budget, std::move(entries));
  });
}

}  // namespace tern::pretrained::jinja
