// Methods of texts, and the filters that do the same.
#include "tern/pretrained/jinja_texts.h"

#include <algorithm>

#include "tern/core/base/error.h"

namespace tern::pretrained::jinja {
namespace {

constexpr size_t kTextCost = 64;  // bytes of a text beside its characters

Value stripped(const Value& self, Call& call, bool left, bool right) {
  const Value of = call.take("chars");
  const std::string set = of.text() ? *of.text() : "";
  // Each is compared with each.
  call.run.budget.step(set.size() * (16 + text_of(self).size()));
  return made(call, strip(text_of(self), of.text() ? &set : nullptr, left, right));
}

bool has_case(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// The text with each letter in upper case where `change` of the character before it (0 at the
/// beginning) is true, else in lower case.
template <class Change>
Value recased(const Value& self, Call& call, Change change) {
  std::string text = to_text(call.run.budget, self);
  char before = 0;
  for (char& c : text) {
    check(!(c & 0x80), "the case of letters beyond ASCII is not supported");
    const char upper = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    c = change(std::exchange(before, c)) ? upper : lower;
  }
  return text;
}

/// The most pieces that an optional count allows.
int64_t most(const Value& count) {
  const int64_t n = count.is_undefined() || count.is<None>() ? -1 : count.integer("a count");
  return n < 0 ? std::numeric_limits<int64_t>::max() : n;
}

}  // namespace

const std::string& text_of(const Value& v) {
  check(v.defined().text() != nullptr, "expected a text, not a {}", v.kind());
  return *v.text();
}

Value made(Call& call, std::string_view text) {
  call.run.budget.take(kTextCost + text.size());
  return std::string(text);
}

Value made(Call& call, Items items) {
  call.run.budget.take(items.size() * sizeof(Value));
  return Value::list(std::move(items));
}

std::vector<std::string_view> cut(Call& call, std::string_view text, std::string_view by,
                                  int64_t limit) {
  check(!by.empty(), "split: the separator is empty");
  call.run.budget.step(text.size() + by.size());
  std::vector<std::string_view> pieces;
  for (size_t at; limit-- > 0 && (at = find_text(text, by)) != text.npos;) {
    call.run.budget.take(2 * sizeof text);
    pieces.push_back(text.substr(0, at));
    text.remove_prefix(at + by.size());
  }
  pieces.push_back(text);
  return pieces;
}

Value joined(Call& call, const Value& list, const std::string& between) {
  std::string out;
  bool first = true;
  for (const Value& item : items_of(call.run.budget, list)) {
    if (!std::exchange(first, false)) call.run.budget.append(out, between);
    call.run.budget.append(out, to_text(call.run.budget, item));
  }
  return out;
}

Value trim(const Value& self, Call& call) {
  return stripped(to_text(call.run.budget, self), call, true, true);
}

Value upper(const Value& self, Call& call) {
  return recased(self, call, [](char) { return true; });
}
Value lower(const Value& self, Call& call) {
  return recased(self, call, [](char) { return false; });
}
Value title(const Value& self, Call& call) {
  constexpr std::string_view kBeforeWords = "-({[< \t\n\r\f\v";
  return recased(self, call, [=](char before) {
    return !before || kBeforeWords.find(before) != kBeforeWords.npos;
  });
}
Value capitalize(const Value& self, Call& call) {
  return recased(self, call, [first = true](char) mutable { return std::exchange(first, false); });
}

Value replace(const Value& self, Call& call) {
  const Value old = to_text(call.run.budget, call.take("old"));
  const Value fresh = to_text(call.run.budget, call.take("new"));
  const int64_t limit = most(call.take("count"));
  const std::string text = to_text(call.run.budget, self);
  std::string out;
  if (old.text()->empty()) {  // between all characters
    int64_t left = limit;
    call.run.budget.take(text.size() * sizeof(std::string_view));
    for (const std::string_view c : characters(text)) {
      if (left-- > 0) call.run.budget.append(out, *fresh.text());
      call.run.budget.append(out, c);
    }
    if (left > 0) call.run.budget.append(out, *fresh.text());
    return out;
  }
  bool first = true;
  for (const std::string_view piece : cut(call, text, *old.text(), limit)) {
    if (!std::exchange(first, false)) call.run.budget.append(out, *fresh.text());
    call.run.budget.append(out, piece);
  }
  return out;
}

Value indent(const Value& self, Call& call) {
  const Value width = call.take_or("width", int64_t{4});
  const bool first = call.take("first").truth(), blank = call.take("blank").truth();
  check(width.text() || width.integer("the width") <= 1000, "indent: the width is too large");
  const std::string space =
      width.text() ? *width.text()
                   : std::string(static_cast<size_t>(std::max<int64_t>(width.integer(""), 0)), ' ');
  call.run.budget.step(space.size());
  std::string out;
  size_t line = 0;
  for (const std::string_view text : cut(call, text_of(self), "\n")) {
    if (line) call.run.budget.append(out, "\n");
    if (line == 0 ? first : blank || !text.empty()) call.run.budget.append(out, space);
    call.run.budget.append(out, text);
    ++line;
  }
  return out;
}

namespace {

Value strip_both(const Value& self, Call& call) { return stripped(self, call, true, true); }
Value strip_left(const Value& self, Call& call) { return stripped(self, call, true, false); }
Value strip_right(const Value& self, Call& call) { return stripped(self, call, false, true); }
Value list_of(Call& call, const std::vector<std::string_view>& pieces) {
  Items items;
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) items.push_back(made(call, piece));
  return made(call, std::move(items));
}

Value split(const Value& self, Call& call) {
  const Value by = call.take("sep");
  int64_t limit = most(call.take("maxsplit"));
  std::string_view text = text_of(self);
  if (by.text()) return list_of(call, cut(call, text, *by.text(), limit));
  std::vector<std::string_view> words;
  size_t end = 0;  // of the word that begins at text
  text = strip(text, nullptr, true, false);
  call.run.budget.take(text.size() * sizeof(std::string_view));
  for (const std::string_view c : characters(text)) {
    if (limit == 0) break;
    if (!is_space(c)) {
      if (end == 0) text.remove_prefix(static_cast<size_t>(c.data() - text.data()));
      end += c.size();
    } else if (end > 0) {
      call.run.budget.take(2 * sizeof text);
      words.push_back(text.substr(0, end));
      text.remove_prefix(end);
      end = 0;
      --limit;
    }
  }
  if (limit == 0) text = strip(text, nullptr, true, false);
  if (end > 0 || (limit == 0 && !text.empty()))
    words.push_back(text.substr(0, end ? end : text.npos));
  return list_of(call, words);
}

/// As Python's: words begin after anything that is no letter ("It'S"). The filter is jinja2's.
Value title_of_text(const Value& self, Call& call) {
  return recased(self, call, [](char before) { return !has_case(before); });
}

Value split_lines(const Value& self, Call& call) {
  constexpr std::string_view kEnds[] = {"\r\n", "\n",   "\r",     "\v",     "\f",    "\x1c",
                                        "\x1d", "\x1e", "\u0085", "\u2028", "\u2029"};
  const std::string_view text = text_of(self);
  std::vector<std::string_view> lines;
  call.run.budget.step(std::size(kEnds) * text.size());
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto* end = std::ranges::find_if(
        kEnds, [&](std::string_view e) { return text.substr(at).starts_with(e); });
    if (end == std::end(kEnds)) {
      ++at;
      continue;
    }
    call.run.budget.take(2 * sizeof text);
    lines.push_back(text.substr(begin, at - begin));
    begin = at += end->size();
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return list_of(call, lines);
}

/// Whether one of the texts of an argument meets the condition: it is a text or a list of them.
template <class Meets>
bool one_meets(const Value& self, Call& call, Meets meets) {
  const Value ends = call.take("prefix");
  const Items all = ends.list() ? items_of(call.run.budget, ends) : Items{ends};
  return std::any_of(all.begin(), all.end(), [&](const Value& v) {
    call.run.budget.step(std::min(text_of(v).size(), text_of(self).size()));
    return meets(text_of(v));
  });
}
Value starts_with(const Value& self, Call& call) {
  return one_meets(self, call, [&](const std::string& t) { return text_of(self).starts_with(t); });
}
Value ends_with(const Value& self, Call& call) {
  return one_meets(self, call, [&](const std::string& t) { return text_of(self).ends_with(t); });
}
Value without_prefix(const Value& self, Call& call) {
  const Value given = call.take("prefix");
  const std::string& prefix = text_of(given);
  const bool has = text_of(self).starts_with(prefix);
  return made(call, std::string_view(text_of(self)).substr(has ? prefix.size() : 0));
}
Value without_suffix(const Value& self, Call& call) {
  const std::string_view text = text_of(self);
  const Value given = call.take("suffix");
  const std::string& suffix = text_of(given);
  return made(call, text.substr(0, text.size() - (text.ends_with(suffix) ? suffix.size() : 0)));
}
Value position(const std::string& text, size_t at) {
  if (at == text.npos) return int64_t{-1};
  return std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at),
                       [](char c) { return (c & 0xC0) != 0x80; });
}
Value find(const Value& self, Call& call) {
  return position(text_of(self), find_text(text_of(self), text_of(call.take("sub"))));
}
template <bool (*is)(char)>
Value all_are(const Value& self, Call&) {
  const std::string& text = text_of(self);
  return !text.empty() && std::all_of(text.begin(), text.end(), is);
}

Value join_method(const Value& self, Call& call) {
  return joined(call, call.take("iterable"), text_of(self));
}

Value occurrences(const Value& self, Call& call) {
  return std::ssize(cut(call, text_of(self), text_of(call.take("value")))) - 1;
}

/// Fields {}, {0} and {name}, without conversions and format specifications.
Value format(const Value& self, Call& call) {
  const std::string& text = text_of(self);
  const Items given = call.rest();
  const Members named = call.rest_named();
  size_t next = 0;
  auto value_of = [&](const std::string& field) -> const Value& {
    const bool counted = std::all_of(field.begin(), field.end(), is_digit);
    size_t index = given.size();
    if (field.empty()) index = next++;
    if (field.size() == 1 && counted) index = static_cast<size_t>(field[0] - '0');
    if (counted && index < given.size()) return given[index];
    for (const auto& [name, value] : named)
      if (!counted && name == field) return value;
    fail(fmt::format("format: nothing is given for '{{{}}}', or tern does not support it", field));
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool brace = c == '{' || c == '}', doubled = text[i + 1] == c;  // "\0" ends the text
    if (!brace || doubled) {
      out += c;
      i += brace;
      continue;
    }
    const size_t end = text.find('}', i);
    check(c == '{' && end != text.npos, "format: a brace has no partner");
    out += to_text(call.run.budget, value_of(text.substr(i + 1, end - i - 1)));
    i = end;
  }
  return made(call, out);
}

// clang-format off
const Table<Function> kMethods = {{"capitalize", capitalize}, {"count", occurrences},
                                  {"endswith", ends_with}, {"find", find}, {"format", format},
                                  {"isdigit", all_are<is_digit>}, {"join", join_method},
                                  {"lower", lower}, {"lstrip", strip_left},
                                  {"removeprefix", without_prefix},
                                  {"removesuffix", without_suffix}, {"replace", replace},
                                  {"rstrip", strip_right}, {"split", split},
                                  {"splitlines", split_lines}, {"startswith", starts_with},
                                  {"strip", strip_both}, {"title", title_of_text},
                                  {"upper", upper}};
// clang-format on

}  // namespace

const Table<Function>& text_methods() { return kMethods; }

}  // namespace tern::pretrained::jinja
