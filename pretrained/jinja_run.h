// What parts of a template are made of and how they run: expressions, statements, calls.
// Inside of pretrained only.
#pragma once

#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/pretrained/jinja_value.h"

namespace tern::pretrained::jinja {

struct Scope {
  const Scope* outer;
  std::map<std::string, Value, std::less<>> names = {};
};

/// The state of a template that runs.
struct Run {
  Budget budget;
  std::tm now;
  std::string out = {};
  Scope root = {nullptr};
  Scope* scope = &root;
  int line = 1;
  int depth = 0;

  /// The value of a name; a built-in function if only that has the name; else undefined.
  Value look_up(const std::string& name);
  /// Runs use() in a new scope inside of `outer`.
  template <class Use>
  auto inside(const Scope& outer, Use use) {
    Scope inner{&outer};
    Scope* before = std::exchange(scope, &inner);
    // An error ends the whole run, so nothing needs the scope afterwards.
    auto result = use();
    scope = before;
    return result;
  }
};

class Expression {
 public:
  using Function = std::function<Value(Run&)>;
  Expression() = default;
  Expression(Function function) : function_(std::move(function)) {}
  explicit operator bool() const { return function_ != nullptr; }
  Value operator()(Run& run) const;

 private:
  Function function_;
};

/// How a statement ends: normally, by `break`, by `continue`.
enum class Flow { normal, break_loop, next_turn };

using Statement = std::function<Flow(Run&)>;

struct Body {
  std::vector<Statement> statements;
  Flow operator()(Run& run) const;
  /// What the body prints. It runs in a scope of its own.
  std::string text(Run& run) const;
};

struct Macro {
  std::string name;
  std::vector<std::pair<std::string, Expression>> parameters;  ///< with the default, if any
  Body body;
};

/// The arguments of a call. The callee takes each that it knows; a rest is an error.
class Call {
 public:
  Call(Run& run_of, std::string what, Items given, Members named)
      : run(run_of), what_(std::move(what)), given_(std::move(given)), named_(std::move(named)) {}
  Run& run;

  /// The next argument, or the one of this name; undefined if there is none.
  Value take(std::string_view name);
  Value take_or(std::string_view name, Value otherwise);
  /// All other arguments.
  Items rest() { return {given_.begin() + std::exchange(at_, std::ssize(given_)), given_.end()}; }
  Members rest_named() { return std::exchange(named_, {}); }
  /// Error: there are arguments that nobody took.
  void end() const;

 private:
  std::string what_;
  Items given_;
  Members named_;
  std::ptrdiff_t at_ = 0;
};

// Filters, tests, methods and global functions by their names (jinja_builtins.cpp). Error: there is
// none of this name.
Value call_filter(const std::string& name, const Value& subject, Call& call);
bool call_test(const std::string& name, const Value& subject, Call& call);
Value call_method(const std::string& name, const Value& subject, Call& call);
bool has_function(const std::string& name);
Value call_function(const std::string& name, Call& call);
Value call_macro(const Macro& macro, Call& call);

/// a + b, a - b, ...; `sign` is the operator. Error: the operator has no meaning for these values.
Value arithmetic(Run& run, const std::string& sign, const Value& a, const Value& b);

}  // namespace tern::pretrained::jinja
