#include "tern/apps/common/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tern/apps/common/suggest.h"
#include "tern/core/base/error.h"

namespace tern::apps {
namespace {

std::string number_rule(const Bounds& b, bool whole) {
  const std::string kind = whole ? "a whole number" : "a number";
  if (!b.open_low && !b.open_high)
    return fmt::format("{} from {:.15g} to {:.15g}", kind, b.low, b.high);
  return fmt::format("{} {} {:.15g} and {} {:.15g}", kind, b.open_low ? "above" : "of at least",
                     b.low, b.open_high ? "below" : "at most", b.high);
}

bool is_in(const Bounds& b, double v) {
  return (b.open_low ? v > b.low : v >= b.low) && (b.open_high ? v < b.high : v <= b.high);
}

template <class T>
void check_number(const Setting& s, const std::string& name, T value) {
  check(is_in(s.bounds, static_cast<double>(value)), "{} is {}; it must be {}", name, value,
        number_rule(s.bounds, std::is_integral_v<T>));
}

void check_word(const Setting& s, const std::string& name, const std::string& word) {
  check(s.words.empty() || std::find(s.words.begin(), s.words.end(), word) != s.words.end(),
        "{} is '{}'; it must be one of {}{}", name, word, fmt::join(s.words, ", "),
        did_you_mean(word, s.words));
}

void check_setting(const Setting& s, const std::string& name) {
  std::visit(
      [&]<class T>(const T* value) {
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
          check_number(s, name, *value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          check_word(s, name, *value);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          for (const int64_t n : *value) check_number(s, name, n);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          for (const std::string& word : *value) check_word(s, name, word);
        }
      },
      s.value);
}

// Of a list that is a set.
template <class T>
void check_differ(const Setting& s, const std::string& name, const std::vector<T>& values) {
  if (!s.type.ends_with("...")) return;
  for (auto v = values.begin(); v != values.end(); ++v)
    check(std::find(values.begin(), v, *v) == v, "{} names {} twice; once is enough", name, *v);
}

template <class T>
T read_number(const Setting& s, const std::string& name, const std::string& word) {
  double v = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), v);
  const bool whole = std::is_integral_v<T>;
  check(error == std::errc() && end == word.data() + word.size() && is_in(s.bounds, v) &&
            (!whole || v == std::floor(v)),
        "{} is '{}'; it must be {}", name, word, number_rule(s.bounds, whole));
  return static_cast<T>(v);
}

bool read_bool(const std::string& name, const std::string& word) {
  for (const char* yes : {"true", "on", "yes", "1"})
    if (word == yes) return true;
  for (const char* no : {"false", "off", "no", "0"})
    if (word == no) return false;
  fail(fmt::format("{} is '{}'; it must be true or false", name, word));
}

std::vector<std::string> split(const std::string& text, char between) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(between, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string> Setting::names() const {
  if (flags.empty()) return {};
  std::vector<std::string> names = split(flags, ',');
  for (std::string& name : names) name.erase(0, name[0] == '!');
  return names;
}

bool Setting::is_list() const {
  const bool vector = std::holds_alternative<std::vector<std::string>*>(value) ||
                      std::holds_alternative<std::vector<int64_t>*>(value);
  return vector && !repeated;
}

std::vector<std::string> Setting::choices() const {
  const bool numbers = !type.empty() && type.find_first_not_of("0123456789|") == type.npos;
  return numbers ? split(type, '|') : words;
}

Setting& Setting::only_if(bool condition, std::string reason) {
  if (condition || !counts) return *this;
  counts = false;
  why = std::move(reason);
  return *this;
}

std::string Settings::flag_of(const std::string& key) {
  std::string flag = "--" + key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

Setting& Settings::put(Setting setting) { return rows_.emplace_back(std::move(setting)); }

Setting& Settings::word(const std::string& key, std::string& value, std::vector<std::string> words,
                        const char* about) {
  Setting& s = add(key, &value, "", about);
  s.type = fmt::format("{}", fmt::join(words, "|"));
  s.words = std::move(words);
  return s;
}

Setting& Settings::list(const std::string& key, std::vector<std::string>& value,
                        std::vector<std::string> words, const char* type, const char* about) {
  Setting& s = add(key, &value, type, about);
  s.words = std::move(words);
  return s;
}

Setting& Settings::numbers(const std::string& key, std::vector<int64_t>& value,
                           const Bounds& bounds, const char* type, const char* about) {
  Setting& s = add(key, &value, type, about);
  s.bounds = bounds;
  return s;
}

Setting* Settings::find(const std::string& key) {
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [&](const Setting& s) { return s.key == key; });
  return found == rows_.end() ? nullptr : &*found;
}

std::string recipe_text(const Settings& settings) {
  std::string text;
  for (const Setting& s : settings.rows())
    if (!s.phrase.empty()) text += (text.empty() ? "" : ", ") + s.phrase;
  return text;
}

void check_settings(const Settings& settings) {
  for (const Setting& s : settings.rows()) check_setting(s, s.key.substr(s.key.rfind('.') + 1));
}

void set_from_words(const Setting& s, const std::string& name,
                    const std::vector<std::string>& words) {
  std::vector<std::string> parts;
  for (const std::string& word : words)
    for (std::string& part : split(word, ',')) parts.push_back(std::move(part));
  std::visit(
      [&]<class T>(T* value) {
        if constexpr (std::is_same_v<T, bool>) {
          *value = read_bool(name, words[0]);
        } else if constexpr (std::is_arithmetic_v<T>) {
          *value = read_number<T>(s, name, words[0]);
        } else if constexpr (std::is_same_v<T, std::string>) {
          *value = words[0];
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          *value = s.words.empty() ? words : parts;
          check_differ(s, name, *value);
        } else {
          value->clear();
          for (const std::string& part : parts)
            value->push_back(read_number<int64_t>(s, name, part));
          check_differ(s, name, *value);
        }
      },
      s.value);
  check_setting(s, name);
}

}  // namespace tern::apps
