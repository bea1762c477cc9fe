// The filters, tests, methods and functions that chat templates use, except those of texts
// (jinja_texts.cpp). Each does what jinja2's or Python's of the same name does.

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tern/core/base/error.h"
#include "tern/core/base/parse_number.h"
#include "tern/core/base/utf8.h"
#include "tern/pretrained/jinja.h"
#include "tern/pretrained/jinja_run.h"
#include "tern/pretrained/jinja_texts.h"

namespace tern::pretrained::jinja {
namespace {

// Numbers.

/// The text of a number, which Python allows to begin with a plus sign.
std::string_view digits_of(const std::string& text) {
  std::string_view digits = strip(text, nullptr, true, true);
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  return digits;
}

Value to_integer(const Value& self, Call& call) {
  const Value otherwise = call.take_or("default", int64_t{0});
  if (self.is<double>()) {
    const double whole = std::trunc(self.number(""));
    return std::abs(whole) < 9e18 ? Value(static_cast<int64_t>(whole)) : otherwise;
  }
  if (self.is_number()) return self.integer("");
  if (!self.text()) return otherwise;
  const std::string_view digits = digits_of(*self.text());
  const char* const last = digits.data() + digits.size();
  int64_t number = 0;
  const auto end = std::from_chars(digits.data(), last, number);
  if (end.ec == std::errc() && end.ptr == last) return number;
  double real = 0;  // "42.23" is 42
  const auto all = tern::detail::parse_number(digits.data(), last, real);
  if (all.ec != std::errc() || all.ptr != last || !(std::abs(real) < 9e18)) return otherwise;
  return static_cast<int64_t>(std::trunc(real));
}

Value to_real(const Value& self, Call& call) {
  const Value otherwise = call.take_or("default", 0.0);
  if (self.is_number()) return self.number("");
  if (!self.text()) return otherwise;
  const std::string_view digits = digits_of(*self.text());
  double number = 0;
  const auto end = tern::detail::parse_number(digits.data(), digits.data() + digits.size(), number);
  return end.ec == std::errc() && end.ptr == digits.data() + digits.size() ? Value(number)
                                                                           : otherwise;
}

Value absolute(const Value& self, Call&) {
  if (self.is<double>()) return std::abs(self.number(""));
  const int64_t n = self.integer("abs");
  check(n != std::numeric_limits<int64_t>::min(), "an integer is too large");
  return std::abs(n);
}

// Lists and dicts.

Value length(const Value& self, Call& call) {
  if (self.dict()) return std::ssize(*self.dict());
  if (self.list()) return std::ssize(*self.list());
  return std::ssize(items_of(call.run.budget, self));
}

Value to_list(const Value& self, Call& call) { return made(call, items_of(call.run.budget, self)); }
Value to_string(const Value& self, Call& call) { return to_text(call.run.budget, self); }
Value first(const Value& self, Call& call) {
  const Items items = items_of(call.run.budget, self);
  return items.empty() ? Value::undefined("the first element") : items.front();
}
Value last(const Value& self, Call& call) {
  const Items items = items_of(call.run.budget, self);
  return items.empty() ? Value::undefined("the last element") : items.back();
}
Value reversed(const Value& self, Call& call) {
  if (self.text()) return slice(call.run.budget, self, {}, {}, int64_t{-1});
  Items items = items_of(call.run.budget, self);
  std::reverse(items.begin(), items.end());
  return made(call, std::move(items));
}

Value pairs(Call& call, const Entries& entries) {
  Items items;
  for (const auto& [key, value] : entries) {
    call.run.budget.take(2 * sizeof(Value));
    items.push_back(Value::list({key, value}));
  }
  return made(call, std::move(items));
}
const Entries& entries_of(const Value& self) {
  check(self.defined().dict() != nullptr, "expected a dict, not a {}", self.kind());
  return *self.dict();
}
Value items(const Value& self, Call& call) {
  return pairs(call, self.is_undefined() ? Entries{} : entries_of(self));
}
Value keys(const Value& self, Call& call) {
  return made(call, items_of(call.run.budget, (entries_of(self), self)));
}
Value values(const Value& self, Call& call) {
  Items all;
  for (const auto& [name, value] : entries_of(self)) all.push_back(value);
  return made(call, std::move(all));
}
Value get(const Value& self, Call& call) {
  const Value key = call.take("key"), otherwise = call.take_or("default", None{});
  entries_of(self);
  const Value* found = self.find(call.run.budget, key);
  return found ? *found : otherwise;
}

/// The key to sort by: a text in small letters, as jinja2 does it unless `case_sensitive`.
Value sort_key(Budget& budget, const Value& v, bool sensitive) {
  if (!v.text() || sensitive) return v;
  budget.step(v.text()->size());
  return lower_ascii(*v.text());
}
/// Sorts by key(element).
template <class Element, class Key>
void sort_by(Budget& budget, std::vector<Element>& elements, bool down, bool sensitive, Key key) {
  for (const Element& e : elements)
    less(budget, key(e), key(elements.front()));  // all have an order
  std::stable_sort(elements.begin(), elements.end(), [&](const Element& a, const Element& b) {
    const Value first = sort_key(budget, key(a), sensitive);
    const Value second = sort_key(budget, key(b), sensitive);
    return down ? less(budget, second, first) : less(budget, first, second);
  });
}
Value sorted_dict(const Value& self, Call& call) {
  Entries entries = entries_of(self);
  const bool sensitive = call.take("case_sensitive").truth();
  sort_by(call.run.budget, entries, false, sensitive,
          [](const auto& entry) { return entry.first; });
  return pairs(call, entries);
}
Value sorted_list(const Value& self, Call& call) {
  Items items = items_of(call.run.budget, self);
  const bool down = call.take("reverse").truth(), sensitive = call.take("case_sensitive").truth();
  sort_by(call.run.budget, items, down, sensitive, [](const Value& v) { return v; });
  return made(call, std::move(items));
}
/// The attribute "a.b" of a value.
Value attribute(Call& call, Value of, const std::string& path) {
  for (const std::string_view name : cut(call, path, "."))
    of = element(call.run.budget, of, std::string(name));
  return of;
}

/// The elements that pass, or that fail, a test (or are true) in an attribute or themselves.
Value chosen(const Value& self, Call& call, bool by_attribute, bool wanted) {
  const std::string path = by_attribute ? text_of(call.take("attribute")) : "";
  const Value test = call.take("test");
  const Items arguments = call.rest();
  Items kept;
  if (!self.truth()) return made(call, kept);
  for (const Value& item : items_of(call.run.budget, self)) {
    const Value subject = by_attribute ? attribute(call, item, path) : item;
    Call inner(call.run, "a test", arguments, {});
    const bool passes =
        test.is_undefined() ? subject.truth() : call_test(text_of(test), subject, inner);
    if (passes == wanted) kept.push_back(item);
  }
  return made(call, std::move(kept));
}
Value select(const Value& self, Call& call) { return chosen(self, call, false, true); }
Value reject(const Value& self, Call& call) { return chosen(self, call, false, false); }
Value select_by(const Value& self, Call& call) { return chosen(self, call, true, true); }
Value reject_by(const Value& self, Call& call) { return chosen(self, call, true, false); }

Value map(const Value& self, Call& call) {
  Members named = call.rest_named();
  const bool by_attribute = !named.empty() && named[0].first == "attribute";
  const Value what = by_attribute ? named[0].second : call.take("filter");
  const Value otherwise =
      by_attribute && named.size() == 2 && named[1].first == "default" ? named[1].second : Value();
  check(!by_attribute || named.size() == 1 || !otherwise.is_undefined(),
        "map: an unknown argument");
  const Items arguments = call.rest();
  Items results;
  if (!self.truth()) return made(call, results);
  for (const Value& item : items_of(call.run.budget, self)) {
    Call inner(call.run, text_of(what), arguments, by_attribute ? Members{} : named);
    Value result = by_attribute ? attribute(call, item, text_of(what))
                                : call_filter(text_of(what), item, inner);
    results.push_back(result.is_undefined() ? otherwise : std::move(result));
  }
  return made(call, std::move(results));
}

Value join(const Value& self, Call& call) {
  const Value between = call.take_or("d", std::string());
  const Value by = call.take("attribute");
  Items items = items_of(call.run.budget, self);
  if (by.text())
    for (Value& item : items) item = attribute(call, item, *by.text());
  return joined(call, Value::list(std::move(items)), to_text(call.run.budget, between));
}

Value otherwise(const Value& self, Call& call) {
  const Value value = call.take_or("default_value", std::string());
  const bool falsy = call.take("boolean").truth();
  return self.is_undefined() || (falsy && !self.truth()) ? value : self;
}

Value json(const Value& self, Call& call) {
  JsonStyle style;
  call.take("ensure_ascii");
  const Value width = call.take("indent"), separators = call.take("separators");
  if (!width.is_undefined() && !width.is<None>()) {
    const int64_t spaces = width.integer("the indent");
    check(spaces >= 0 && spaces <= 100, "tojson: the indent is {}", spaces);
    style.indent = static_cast<int>(spaces);
    style.comma.resize(1);  // without the space
  }
  if (separators.list()) {
    check(separators.list()->size() == 2, "tojson: there are two separators");
    style.comma = text_of(separators.list()->front());
    style.colon = text_of(separators.list()->back());
  }
  style.sorted = call.take("sort_keys").truth();
  return to_json(call.run.budget, self, style);
}

// clang-format off
const Table<Function> kFilters = {{"abs", absolute}, {"capitalize", capitalize}, {"count", length},
                                  {"d", otherwise}, {"default", otherwise},
                                  {"dictsort", sorted_dict}, {"first", first}, {"float", to_real},
                                  {"indent", indent}, {"int", to_integer}, {"items", items},
                                  {"join", join}, {"last", last}, {"length", length},
                                  {"list", to_list}, {"lower", lower}, {"map", map},
                                  {"reject", reject}, {"rejectattr", reject_by},
                                  {"replace", replace}, {"reverse", reversed}, {"safe", to_string},
                                  {"select", select}, {"selectattr", select_by},
                                  {"sort", sorted_list}, {"string", to_string}, {"title", title},
                                  {"tojson", json}, {"trim", trim}, {"upper", upper}};
// clang-format on

// Tests.

using Test = bool (*)(const Value& self, Call& call);
template <class T>
bool is(const Value& self, Call&) {
  return self.is<T>();
}
template <bool wanted>
bool is_truth(const Value& self, Call&) {
  return self.is<bool>() && self.truth() == wanted;
}
bool is_defined(const Value& self, Call&) { return !self.is_undefined(); }
bool is_string(const Value& self, Call&) { return self.text(); }
bool is_number(const Value& self, Call&) { return self.is_number(); }
bool is_mapping(const Value& self, Call&) { return self.dict(); }
bool is_sequence(const Value& self, Call&) {
  return self.text() || self.list() || self.dict() || self.is_undefined();
}
bool is_callable(const Value& self, Call&) { return self.is_callable(); }
bool is_equal(const Value& self, Call& call) {
  return equal(call.run.budget, self, call.take("other"));
}
bool is_unequal(const Value& self, Call& call) { return !is_equal(self, call); }
bool is_less(const Value& self, Call& call) {
  return less(call.run.budget, self, call.take("other"));
}
bool is_greater(const Value& self, Call& call) {
  return less(call.run.budget, call.take("other"), self);
}
bool is_in(const Value& self, Call& call) {
  return contains(call.run.budget, call.take("seq"), self);
}
bool is_even(const Value& self, Call&) { return self.integer("an even number") % 2 == 0; }
bool is_odd(const Value& self, Call&) { return self.integer("an odd number") % 2 != 0; }
bool divides(const Value& self, Call& call) {
  const int64_t by = call.take("num").integer("a divisor");
  check(by != 0, "division by zero");
  return by == -1 || self.integer("a number") % by == 0;
}

// clang-format off
const Table<Test> kTests = {{"boolean", is<bool>}, {"callable", is_callable},
                            {"defined", is_defined}, {"divisibleby", divides}, {"eq", is_equal},
                            {"equalto", is_equal}, {"even", is_even}, {"false", is_truth<false>},
                            {"float", is<double>}, {"greaterthan", is_greater}, {"gt", is_greater},
                            {"in", is_in}, {"integer", is<int64_t>}, {"iterable", is_sequence},
                            {"lessthan", is_less}, {"lt", is_less}, {"mapping", is_mapping},
                            {"ne", is_unequal}, {"none", is<None>}, {"number", is_number},
                            {"odd", is_odd}, {"sequence", is_sequence}, {"string", is_string},
                            {"true", is_truth<true>}, {"undefined", is<Undefined>}};
// clang-format on

// Methods.

Value count(const Value& self, Call& call) {
  const Value what = call.take("value");
  int64_t n = 0;
  for (const Value& item : *self.list()) n += equal(call.run.budget, item, what);
  return n;
}

const Table<Function> kDictMethods = {
    {"get", get}, {"items", items}, {"keys", keys}, {"values", values}};
const Table<Function> kListMethods = {{"count", count}};

// Functions. They have no subject.

Value range(const Value&, Call& call) {
  int64_t from = call.take("start").integer("range");
  const Value end = call.take("stop");
  const int64_t step = call.take_or("step", int64_t{1}).integer("the step of range");
  int64_t to = end.is_undefined() ? std::exchange(from, 0) : end.integer("range");
  constexpr int64_t kMost = 100'000;  // as in jinja2's sandbox
  constexpr int64_t kFar = int64_t{1} << 53;
  check(step != 0 && std::max({from, to, step}) < kFar && std::min({from, to, step}) > -kFar &&
            (to - from) / step <= kMost,
        "range({}, {}, {}) is too large", from, to, step);
  Items numbers;
  for (; step > 0 ? from < to : from > to; from += step) numbers.emplace_back(from);
  return made(call, std::move(numbers));
}

/// A value for a namespace, which may not contain another.
Value stored(const Value& v) {
  check(!v.names(), "a namespace cannot be stored in another");
  return v;
}
Value make_namespace(const Value&, Call& call) {
  auto names = std::make_shared<Namespace>();
  for (const auto& [name, value] : call.rest_named())
    names->names.insert_or_assign(name, stored(value));
  call.run.budget.take(names->names.size() * sizeof(Value));
  return names;
}

Value make_dict(const Value&, Call& call) {
  const Value initial = call.take("");
  Entries entries = initial.is_undefined() ? Entries{} : entries_of(initial);
  for (auto& [name, value] : call.rest_named()) entries.emplace_back(name, std::move(value));
  return Value::dict(call.run.budget, std::move(entries));
}

Value raise(const Value&, Call& call) {
  throw Raised(to_text(call.run.budget, call.take("message")));
}

Value now(const Value&, Call& call) {
  char text[256];
  const size_t size =
      std::strftime(text, sizeof text, text_of(call.take("format")).c_str(), &call.run.now);
  return made(call, std::string_view(text, size));
}

const Table<Function> kFunctions = {{"dict", make_dict},
                                    {"namespace", make_namespace},
                                    {"raise_exception", raise},
                                    {"range", range},
                                    {"strftime_now", now}};

template <class F>
auto call_in(const Table<F>& table, const char* what, const std::string& name, const Value& subject,
             Call& call) {
  const auto found = table.find(name);
  check(found != table.end(), "there is no {} '{}', or tern does not support it", what, name);
  call.run.budget.step(subject.text() ? subject.text()->size() : 0);
  const auto result = found->second(subject, call);
  call.end();
  return result;
}

}  // namespace

Value call_filter(const std::string& name, const Value& subject, Call& call) {
  return call_in(kFilters, "filter", name, subject, call);
}

bool call_test(const std::string& name, const Value& subject, Call& call) {
  static const std::map<std::string_view, std::string> kSigns = {
      {"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {">", "gt"}};
  const auto sign = kSigns.find(name);
  return call_in(kTests, "test", sign == kSigns.end() ? name : sign->second, subject, call);
}

Value call_method(const std::string& name, const Value& subject, Call& call) {
  check(subject.defined().text() || subject.dict() || subject.list(), "a {} has no methods",
        subject.kind());
  const Table<Function>& table = subject.text()   ? text_methods()
                                 : subject.dict() ? kDictMethods
                                                  : kListMethods;
  return call_in(table, "method", name, subject, call);
}

bool has_function(const std::string& name) { return kFunctions.contains(name); }

Value call_function(const std::string& name, Call& call) {
  return call_in(kFunctions, "function", name, {}, call);
}

}  // namespace tern::pretrained::jinja
