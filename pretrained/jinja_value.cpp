// Kinds of values of a template, their texts, comparison and elements.
#include "tern/pretrained/jinja_value.h"

#include <fmt/core.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tern/data/text/unicode/unicode.h"

namespace tern::pretrained::jinja {
namespace {

constexpr int kMostLevels = 100;

int depth_above(const Value& v, int depth) { return std::max(depth, v.depth() + 1); }

void check_depth(int depth) { check(depth <= kMostLevels, "a value nests too deeply"); }

std::string number_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", x);
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

/// As Python writes a text in a list.
void append_quoted(Budget& budget, std::string& out, const std::string& text) {
  const bool twice = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = twice ? '"' : '\'';
  budget.take(text.size() + 2);
  out += quote;
  for (const char c : text) {
    if (c == quote || c == '\\') budget.append(out, "\\");
    if (c == '\n')
      budget.append(out, "\\n");
    else if (c == '\r')
      budget.append(out, "\\r");
    else if (c == '\t')
      budget.append(out, "\\t");
    else if (static_cast<unsigned char>(c) < 32 || c == 127)
      budget.append(out, fmt::format("\\x{:02x}", c));
    else
      out += c;
  }
  out += quote;
}

void append_json_text(Budget& budget, std::string& out, const std::string& text) {
  static constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
  budget.take(text.size() + 2);
  out += '"';
  for (const char c : text) {
    if (const size_t at = kSpecial.find(c); at != kSpecial.npos)
      budget.append(out, std::string{'\\', kLetters[at]});
    else if (static_cast<unsigned char>(c) < 32)
      budget.append(out, fmt::format("\\u{:04x}", c));
    else
      out += c;
  }
  out += '"';
}

/// Whether it is a text, a number, true, false or none, whose text this appends.
bool append_simple(Budget& budget, std::string& out, const Value& v, bool json) {
  if (v.is<bool>())
    budget.append(out, v.truth() ? (json ? "true" : "True") : (json ? "false" : "False"));
  else if (v.is<None>())
    budget.append(out, json ? "null" : "None");
  else if (v.is<int64_t>())
    budget.append(out, fmt::format("{}", v.integer("")));
  else if (v.is<double>())
    budget.append(out, number_text(v.number("")));
  else if (v.text() && json)
    append_json_text(budget, out, *v.text());
  else if (v.text())
    append_quoted(budget, out, *v.text());
  else
    return false;
  return true;
}

void append_python(Budget& budget, std::string& out, const Value& v) {
  budget.step();
  if (append_simple(budget, out, v, false)) return;
  if (const Items* items = v.list()) {
    out += '[';
    for (size_t i = 0; i < items->size(); ++i) {
      if (i) budget.append(out, ", ");
      append_python(budget, out, (*items)[i]);
    }
    out += ']';
  } else if (const Entries* entries = v.dict()) {
    out += '{';
    for (size_t i = 0; i < entries->size(); ++i) {
      if (i) budget.append(out, ", ");
      append_python(budget, out, (*entries)[i].first);
      budget.append(out, ": ");
      append_python(budget, out, (*entries)[i].second);
    }
    out += '}';
  } else {
    check(v.is_undefined(), "a {} cannot be printed", v.kind());
    budget.append(out, "Undefined");
  }
}

void append_json(Budget& budget, std::string& out, const Value& v, const JsonStyle& style,
                 int level) {
  budget.step();
  if (append_simple(budget, out, v.defined(), true)) return;
  check(v.list() || v.dict(), "a {} has no JSON", v.kind());
  auto new_line = [&](int depth) {
    if (style.indent < 0) return;
    budget.append(out, "\n");
    budget.take(static_cast<size_t>(style.indent * depth));
    out.append(static_cast<size_t>(style.indent * depth), ' ');
  };
  const size_t count = v.list() ? v.list()->size() : v.dict()->size();
  Entries entries = v.dict() ? *v.dict() : Entries{};
  if (style.sorted) {
    for (const auto& [key, value] : entries)
      less(budget, key, entries[0].first);  // all have an order
    std::sort(entries.begin(), entries.end(),
              [&](const auto& a, const auto& b) { return less(budget, a.first, b.first); });
  }
  out += v.list() ? '[' : '{';
  for (size_t i = 0; i < count; ++i) {
    if (i) budget.append(out, style.comma);
    new_line(level + 1);
    if (v.list()) {
      append_json(budget, out, (*v.list())[i], style, level + 1);
    } else {
      std::string key;
      append_simple(budget, key, entries[i].first, true);
      entries[i].first.text() ? budget.append(out, key) : append_json_text(budget, out, key);
      budget.append(out, style.colon);
      append_json(budget, out, entries[i].second, style, level + 1);
    }
  }
  if (count) new_line(level);
  out += v.list() ? ']' : '}';
}

/// The position of element `i` of `size`, where negative numbers count from the end.
std::optional<size_t> place(int64_t i, size_t size) {
  if (i < 0) i += static_cast<int64_t>(size);
  if (i < 0 || std::cmp_greater_equal(i, size)) return std::nullopt;
  return static_cast<size_t>(i);
}

}  // namespace

Value Value::undefined(std::string name) {
  Value v;
  constexpr size_t kMostName = 60;  // it is only for errors
  if (name.size() > kMostName) {
    size_t end = kMostName;
    while (end > 0 && (name[end] & 0xC0) == 0x80) --end;
    name.resize(end), name.shrink_to_fit();
  }
  v.kind_ = Undefined{std::move(name)};
  return v;
}

Value Value::list(Items items) {
  int depth = 0;
  for (const Value& item : items) depth = depth_above(item, depth);
  check_depth(depth);
  Value v;
  v.kind_ = std::make_shared<const List>(List{std::move(items), depth});
  return v;
}

Value Value::dict(Budget& budget, Entries entries) {
  Entries unique;
  int depth = 0;
  for (auto& [key, value] : entries) {
    check(key.text() || key.is_number(), "a key of a dict is a {}", key.kind());
    depth = depth_above(value, depth);
    const auto same = std::find_if(unique.begin(), unique.end(), [&, &key = key](const auto& e) {
      return equal(budget, e.first, key);
    });
    if (same == unique.end())
      unique.emplace_back(std::move(key), std::move(value));
    else
      same->second = std::move(value);
  }
  check_depth(depth);
  budget.take(unique.size() * 2 * sizeof(Value));
  Value v;
  v.kind_ = std::make_shared<const Dict>(Dict{std::move(unique), depth});
  return v;
}

template <class T>
const T* Value::pointer() const {
  const auto* pointer = std::get_if<std::shared_ptr<const T>>(&kind_);
  return pointer ? pointer->get() : nullptr;
}

const std::string* Value::text() const { return pointer<std::string>(); }
const Items* Value::list() const { return pointer<List>() ? &pointer<List>()->items : nullptr; }
const Entries* Value::dict() const { return pointer<Dict>() ? &pointer<Dict>()->entries : nullptr; }
const Macro* Value::macro() const { return pointer<Macro>(); }
Namespace* Value::names() const {
  const auto* names = std::get_if<std::shared_ptr<Namespace>>(&kind_);
  return names ? names->get() : nullptr;
}

int Value::depth() const {
  if (pointer<List>()) return pointer<List>()->depth;
  if (pointer<Dict>()) return pointer<Dict>()->depth;
  return names() ? kMostLevels : 0;
}

int64_t Value::integer(const char* what) const {
  if (is<bool>()) return std::get<bool>(kind_);
  check(defined().is<int64_t>(), "{} must be an integer, not a {}", what, kind());
  return std::get<int64_t>(kind_);
}

double Value::number(const char* what) const {
  if (is<double>()) return std::get<double>(kind_);
  check(defined().is_number(), "{} must be a number, not a {}", what, kind());
  return static_cast<double>(integer(what));
}

bool Value::truth() const {
  if (is_number()) return number("") != 0;
  if (text()) return !text()->empty();
  if (list()) return !list()->empty();
  if (dict()) return !dict()->empty();
  return names() || is_callable();
}

const Value& Value::defined() const {
  if (const auto* nothing = std::get_if<Undefined>(&kind_))
    fail(nothing->name.empty() ? "a value is undefined" : "'" + nothing->name + "' is undefined");
  return *this;
}

const char* Value::kind() const {
  static constexpr const char* kKinds[] = {
      "undefined value", "none", "function", "boolean", "integer", "number", "text", "list", "dict",
      "namespace",       "macro"};
  static_assert(std::size(kKinds) == std::variant_size_v<decltype(kind_)>);
  return kKinds[kind_.index()];
}

const Value* Value::find(Budget& budget, const Value& key) const {
  if (const Namespace* space = names()) {
    const auto found = key.text() ? space->names.find(*key.text()) : space->names.end();
    return found == space->names.end() ? nullptr : &found->second;
  }
  const auto cost = [&](const Value& name) {
    return key.text() && name.text() && name.text()->size() == key.text()->size()
               ? key.text()->size()
               : size_t{1};
  };
  if (dict())
    for (const auto& [name, value] : *dict())
      if (budget.step(cost(name));
          key.text() ? name.text() && *name.text() == *key.text()
                     : key.is_number() && name.is_number() && name.number("") == key.number(""))
        return &value;
  return nullptr;
}

std::string to_text(Budget& budget, const Value& value) {
  std::string out;
  if (value.is_undefined()) return out;
  if (value.text())
    budget.append(out, *value.text());
  else
    append_python(budget, out, value);
  return out;
}

std::string to_json(Budget& budget, const Value& value, const JsonStyle& style) {
  std::string out;
  append_json(budget, out, value, style, 0);
  return out;
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    if (a.is<double>() || b.is<double>()) return a.number("") == b.number("");
    return a.integer("") == b.integer("");
  }
  if (a.text() && b.text()) {
    budget.step(a.text()->size());
    return *a.text() == *b.text();
  }
  if (a.list() && b.list())
    return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(),
                      [&](const Value& x, const Value& y) { return equal(budget, x, y); });
  if (a.dict() && b.dict())
    return a.dict()->size() == b.dict()->size() &&
           std::all_of(a.dict()->begin(), a.dict()->end(), [&](const auto& member) {
             const Value* other = b.find(budget, member.first);
             return other && equal(budget, member.second, *other);
           });
  if (a.names() || a.macro()) return a.names() == b.names() && a.macro() == b.macro();
  return (a.is<None>() && b.is<None>()) || (a.is_undefined() && b.is_undefined());
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.defined().text() && b.defined().text()) {
    budget.step(std::min(a.text()->size(), b.text()->size()));
    return *a.text() < *b.text();
  }
  check(a.is_number() && b.is_number(), "a {} and a {} have no order", a.kind(), b.kind());
  if (a.is<double>() || b.is<double>()) return a.number("") < b.number("");
  return a.integer("") < b.integer("");
}

bool contains(Budget& budget, const Value& whole, const Value& part) {
  if (const Items* items = whole.list())
    return std::any_of(items->begin(), items->end(),
                       [&](const Value& item) { return equal(budget, item, part); });
  if (whole.is_undefined()) return false;
  check(whole.text() || whole.dict(), "'in' needs a text, a list or a dict, not a {}",
        whole.kind());
  if (whole.dict()) return whole.find(budget, part);
  check(part.defined().text(), "'in' of a text needs a text, not a {}", part.kind());
  budget.step(whole.text()->size());
  return find_text(*whole.text(), *part.text()) != std::string::npos;
}

Items items_of(Budget& budget, const Value& value) {
  Items items;
  if (value.list()) {
    items = *value.list();
  } else if (value.dict()) {
    for (const auto& [key, member] : *value.dict()) items.push_back(key);
  } else if (value.text()) {
    constexpr size_t kCost = 3 * sizeof(Value);  // about, for a character and its place
    budget.take(value.text()->size() * kCost);
    for (const std::string_view c : characters(*value.text())) items.emplace_back(std::string(c));
  } else {
    check(value.is_undefined(), "a {} has no elements", value.kind());
  }
  budget.take(items.size() * sizeof(Value));
  return items;
}

Value slice(Budget& budget, const Value& whole, const Value& from, const Value& to,
            const Value& step) {
  check(whole.defined().list() || whole.text(), "a {} has no slices", whole.kind());
  const Items items = items_of(budget, whole);
  const auto size = static_cast<int64_t>(items.size());
  auto given = [](const Value& v) { return !v.is_undefined() && !v.is<None>(); };
  const int64_t by =
      given(step) ? std::clamp(step.integer("the step of a slice"), -size - 1, size + 1) : 1;
  check(by != 0, "the step of a slice is 0");
  // A bound before the first element or behind the last one counts as the end on that side.
  const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? size : size - 1;
  auto bound = [&](const Value& v, int64_t otherwise) {
    if (!given(v)) return otherwise;
    const int64_t i = v.integer("a bound of a slice");
    return std::clamp(i < 0 ? std::max(i, -size - 1) + size : i, lowest, highest);
  };
  const int64_t first = bound(from, by > 0 ? lowest : highest);
  const int64_t last = bound(to, by > 0 ? highest : lowest);
  Items chosen;
  for (int64_t i = first; by > 0 ? i < last : i > last; i += by)
    chosen.push_back(items[static_cast<size_t>(i)]);
  budget.take(chosen.size() * sizeof(Value));
  if (whole.list()) return Value::list(std::move(chosen));
  std::string text;
  for (const Value& c : chosen) text += *c.text();
  return text;
}

Value element(Budget& budget, const Value& whole, const Value& key) {
  whole.defined();
  if (const Value* member = whole.find(budget, key)) return *member;
  if (key.text()) return Value::undefined(*key.text());
  if ((whole.list() || whole.text()) && (key.is<int64_t>() || key.is<bool>())) {
    const Items items = whole.list() ? Items{} : items_of(budget, whole);
    const Items& all = whole.list() ? *whole.list() : items;
    if (const auto at = place(key.integer(""), all.size())) return all[*at];
  }
  return Value::undefined("an element");
}

size_t find_text(std::string_view text, std::string_view part) {
  const void* found = ::memmem(text.data(), text.size(), part.data(), part.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : text.npos;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    for (end = begin + 1; end < text.size() && (text[end] & 0xC0) == 0x80;) ++end;
    out.push_back(text.substr(begin, end - begin));
  }
  return out;
}

bool is_space(std::string_view c) {
  size_t at = 0;
  return datasets::is_space(datasets::next_code_point(c, at)) && at == c.size();
}

std::string_view strip(std::string_view text, const std::string* of, bool left, bool right) {
  auto goes = [set = of ? characters(*of) : std::vector<std::string_view>{}, of](auto c) {
    return of ? std::find(set.begin(), set.end(), c) != set.end() : is_space(c);
  };
  while (left && !text.empty()) {
    size_t n = 1;
    while (n < text.size() && (text[n] & 0xC0) == 0x80) ++n;
    if (!goes(text.substr(0, n))) break;
    text.remove_prefix(n);
  }
  while (right && !text.empty()) {
    size_t n = text.size() - 1;
    while (n > 0 && (text[n] & 0xC0) == 0x80) --n;
    if (!goes(text.substr(n))) break;
    text.remove_suffix(text.size() - n);
  }
  return text;
}

}  // namespace tern::pretrained::jinja
