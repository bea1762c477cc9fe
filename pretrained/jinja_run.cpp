// Runs the parts of a template: names, scopes, macros, arithmetic.
#include "tern/pretrained/jinja_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"

namespace tern::pretrained::jinja {
namespace {

constexpr int kMostDepth = 1000;  // a level takes up to about a kilobyte of the stack

/// Counts a level of nested expressions, blocks and calls.
class Level {
 public:
  explicit Level(Run& run) : run_(run) {
    run.budget.step();
    check(++run.depth <= kMostDepth, "it nests too deeply");
  }
  ~Level() { --run_.depth; }

 private:
  Run& run_;
};

/// Python's // and %, whose remainder has the sign of b.
Value divide(const std::string& sign, int64_t a, int64_t b) {
  check(b != 0, "division by zero");
  if (b == -1) b = sign == "%" ? 1 : b;  // the smallest integer has no quotient by -1
  check(b != -1 || a != std::numeric_limits<int64_t>::min(), "an integer is too large");
  const bool down = a % b != 0 && (a < 0) != (b < 0);
  return sign == "%" ? a % b + (down ? b : 0) : a / b - down;
}

Value of_integers(const std::string& sign, int64_t a, int64_t b) {
  int64_t result = 0;
  bool over = false;
  if (sign == "+") {
    over = __builtin_add_overflow(a, b, &result);
  } else if (sign == "-") {
    over = __builtin_sub_overflow(a, b, &result);
  } else if (sign == "*") {
    over = __builtin_mul_overflow(a, b, &result);
  } else if (sign == "**") {
    check(b >= 0 && b < 64, "the exponent {} is not from 0 to 63", b);
    for (result = 1; b > 0 && !over; --b) over = __builtin_mul_overflow(result, a, &result);
  } else {
    return divide(sign, a, b);
  }
  check(!over, "an integer is too large");
  return result;
}

Value of_reals(const std::string& sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  check(b != 0, "division by zero");
  if (sign == "/") return a / b;
  // As in Python: 1000 // 0.1 is 9999, since the f64 of 0.1 is above a tenth.
  double rest = std::fmod(a, b), whole = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
    whole -= 1;
  }
  if (sign == "%") return rest != 0 ? rest : std::copysign(0.0, b);
  if (whole == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(whole);
  return whole - floor > 0.5 ? floor + 1 : floor;
}

/// `n` times a text or list.
Value repeat(Run& run, const Value& whole, int64_t n) {
  static const Items kNoItems;
  static const std::string kNoText;
  const Items& items = whole.list() ? *whole.list() : kNoItems;
  const std::string& text = whole.text() ? *whole.text() : kNoText;
  n = std::max<int64_t>(n, 0);
  const auto size = static_cast<int64_t>(text.size() + items.size() * sizeof(Value) + 1);
  check(n <= run.budget.bytes / size, "it makes too much text");
  run.budget.take(static_cast<size_t>(n * size));
  Items many;
  std::string long_text;
  for (int64_t i = 0; i < n; ++i) {
    many.insert(many.end(), items.begin(), items.end());
    long_text += text;
  }
  return whole.list() ? Value::list(std::move(many)) : Value(std::move(long_text));
}

}  // namespace

Value Run::look_up(const std::string& name) {
  for (const Scope* s = scope; s; s = s->outer, budget.step())
    if (const auto found = s->names.find(name); found != s->names.end()) return found->second;
  return has_function(name) ? Value(Builtin{}) : Value::undefined(name);
}

Value Expression::operator()(Run& run) const {
  const Level level(run);
  return function_(run);
}

Flow Body::operator()(Run& run) const {
  const Level level(run);
  for (const Statement& statement : statements)
    if (const Flow flow = statement(run); flow != Flow::normal) return flow;
  return Flow::normal;
}

std::string Body::text(Run& run) const {
  std::string before = std::exchange(run.out, {});
  run.inside(*run.scope, [&] { return (*this)(run); });
  return std::exchange(run.out, std::move(before));
}

Value Call::take(std::string_view name) {
  if (at_ < std::ssize(given_)) return given_[static_cast<size_t>(at_++)];
  const auto found = std::find_if(named_.begin(), named_.end(),
                                  [&](const auto& argument) { return argument.first == name; });
  if (found == named_.end()) return Value::undefined(what_ + "(" + std::string(name) + ")");
  Value value = std::move(found->second);
  named_.erase(found);
  return value;
}

Value Call::take_or(std::string_view name, Value otherwise) {
  Value given = take(name);
  return given.is_undefined() ? otherwise : given;
}

void Call::end() const {
  check(named_.empty(), "{} has no argument '{}'", what_, named_.empty() ? "" : named_[0].first);
  check(at_ == std::ssize(given_), "{} takes only {} arguments", what_, at_);
}

Value call_macro(const Macro& macro, Call& call) {
  Run& run = call.run;
  const int line = run.line;
  std::string text = run.inside(run.root, [&] {
    Scope& scope = *run.scope;
    for (const auto& [name, otherwise] : macro.parameters) {
      Value given = call.take(name);
      if (given.is_undefined() && otherwise) given = otherwise(run);
      scope.names.insert_or_assign(name, std::move(given));
    }
    call.end();
    return macro.body.text(run);
  });
  run.line = line;
  return text;
}

Value arithmetic(Run& run, const std::string& sign, const Value& a, const Value& b) {
  if (sign == "~") {
    std::string text = to_text(run.budget, a);
    run.budget.append(text, to_text(run.budget, b));
    return text;
  }
  a.defined(), b.defined();
  if (a.is_number() && b.is_number()) {
    const bool real = a.is<double>() || b.is<double>() || sign == "/";
    return real ? of_reals(sign, a.number(""), b.number(""))
                : of_integers(sign, a.integer(""), b.integer(""));
  }
  if (sign == "+" && a.text() && b.text()) {
    std::string text;
    text.reserve(a.text()->size() + b.text()->size());
    run.budget.append(text, *a.text());
    run.budget.append(text, *b.text());
    return text;
  }
  if (sign == "+" && a.list() && b.list()) {
    run.budget.take((a.list()->size() + b.list()->size()) * sizeof(Value));
    Items items = *a.list();
    items.insert(items.end(), b.list()->begin(), b.list()->end());
    return Value::list(std::move(items));
  }
  if (sign == "*" && (a.text() || a.list())) return repeat(run, a, b.integer("a count"));
  if (sign == "*" && (b.text() || b.list())) return repeat(run, b, a.integer("a count"));
  fail(fmt::format("a {} {} a {} has no value", a.kind(), sign, b.kind()));
}

}  // namespace tern::pretrained::jinja
