// The values that a chat template computes with (jinja.h). They behave as Python's do.
// Inside of pretrained only.
//
// Only a namespace can change after it was made. Neither a namespace nor a list can contain a
// namespace, and lists nest at most 100 deep. So values form no circles, and recursion over them
// ends.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tern/core/base/error.h"

namespace tern::pretrained::jinja {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Value;
struct Macro;

/// What a run may still use: steps of the program and bytes of new values. Error when it is used
/// up. Whatever takes time that grows with a value counts it, also where it makes nothing new.
struct Budget {
  int64_t steps, bytes;
  /// One step, with a pass over text of this size.
  void step(size_t bytes_read = 0) {
    constexpr size_t kBytesPerStep = 8;
    steps -= static_cast<int64_t>(1 + bytes_read / kBytesPerStep);
    check(steps >= 0, "it takes too many steps");
  }
  void take(size_t n) {
    check(std::cmp_less_equal(n, bytes), "it makes too much text");
    bytes -= static_cast<int64_t>(n);
  }
  void append(std::string& out, std::string_view text) {
    take(text.size());
    out += text;
  }
};

/// A name that has no value. It prints as nothing, and most operations refuse it.
struct Undefined {
  std::string name;
};
struct None {};
/// A function of jinja_builtins.cpp, which a name without another value may stand for.
struct Builtin {};

using Items = std::vector<Value>;
/// Names with values, in the order in which they were given.
using Members = std::vector<std::pair<std::string, Value>>;
/// Keys with values, in the order of insertion.
using Entries = std::vector<std::pair<Value, Value>>;

struct List {
  Items items;
  int depth;
};
struct Dict {
  Entries entries;
  int depth;
};
struct Namespace {
  std::map<std::string, Value, std::less<>> names;
};

class Value {
 public:
  Value() = default;
  Value(None) : kind_(None{}) {}
  Value(Builtin) : kind_(Builtin{}) {}
  template <class T>
  requires std::is_same_v<T, bool> Value(T truth) : kind_(truth) {}
  Value(int64_t number) : kind_(number) {}
  Value(double number) : kind_(number) {}
  Value(std::string text) : kind_(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::shared_ptr<Namespace> names) : kind_(std::move(names)) {}
  Value(std::shared_ptr<const Macro> macro) : kind_(std::move(macro)) {}
  static Value undefined(std::string name);
  /// Error: the list would nest too deeply.
  static Value list(Items items);
  /// Of two equal keys the last one counts. Error also: a key is no text and no number.
  static Value dict(Budget& budget, Entries entries);

  bool is_undefined() const { return is<Undefined>(); }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(kind_);
  }
  bool is_callable() const { return is<Builtin>() || macro(); }
  bool is_number() const { return is<bool>() || is<int64_t>() || is<double>(); }
  // The value if it is of this kind, else null.
  const std::string* text() const;
  const Items* list() const;
  const Entries* dict() const;
  Namespace* names() const;
  const Macro* macro() const;
  /// The integer; a boolean is 0 or 1. Error, which begins with `what`, if it is another kind.
  int64_t integer(const char* what) const;
  /// Any number. Error, which begins with `what`, if it is another kind.
  double number(const char* what) const;

  bool truth() const;
  /// Error: undefined.
  const Value& defined() const;
  /// "str", "list", ...
  const char* kind() const;
  /// The member of a dict or namespace, or null.
  const Value* find(Budget& budget, const Value& key) const;
  int depth() const;

 private:
  template <class T>
  const T* pointer() const;
  std::variant<Undefined, None, Builtin, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
               std::shared_ptr<const Macro>>
      kind_;
};

/// As Python's str().
std::string to_text(Budget& budget, const Value& value);
/// As Python's json.dumps(value, ensure_ascii=False, indent, separators, sort_keys).
struct JsonStyle {
  int indent = -1;  ///< a negative indent writes one line
  std::string comma = ", ", colon = ": ";
  bool sorted = false;
};
std::string to_json(Budget& budget, const Value& value, const JsonStyle& style);
bool equal(Budget& budget, const Value& a, const Value& b);
/// Numbers and texts have an order; Error for others.
bool less(Budget& budget, const Value& a, const Value& b);
/// Whether `whole` contains `part`: text in a text, value in a list, key in a dict.
bool contains(Budget& budget, const Value& whole, const Value& part);
/// The values that a loop visits: of a list, the keys of a dict, the characters of a text.
Items items_of(Budget& budget, const Value& value);
/// whole[from:to:step]; an undefined or none bound is left out.
Value slice(Budget& budget, const Value& whole, const Value& from, const Value& to,
            const Value& step);
/// whole[key], else undefined.
Value element(Budget& budget, const Value& whole, const Value& key);

/// Where `part` is in the text, else npos. Takes linear time, unlike std::string's find.
size_t find_text(std::string_view text, std::string_view part);
/// The text in characters of UTF-8.
std::vector<std::string_view> characters(std::string_view text);
/// Without the characters of `of` at its ends; without white space if `of` is null.
std::string_view strip(std::string_view text, const std::string* of, bool left, bool right);
/// Whether it is one character that Python counts as white space.
bool is_space(std::string_view character);

}  // namespace tern::pretrained::jinja
