#include "tern/apps/common/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/core/base/error.h"

namespace tern::apps {
namespace {

std::string bounds_text(const Bounds& b) {
  if (!b.open_low && !b.open_high) return fmt::format("{:.15g} to {:.15g}", b.low, b.high);
  return fmt::format("{} {:.15g} and {} {:.15g}", b.open_low ? "above" : "at least", b.low,
                     b.open_high ? "below" : "at most", b.high);
}

bool is_in(const Bounds& b, double v) {
  return (b.open_low ? v > b.low : v >= b.low) && (b.open_high ? v < b.high : v <= b.high);
}

template <class T>
void check_number(const Setting& s, const std::string& name, T value) {
  check(is_in(s.bounds, static_cast<double>(value)), "{} is {}; {}", name, value,
        bounds_text(s.bounds));
}

void check_word(const Setting& s, const std::string& name, const std::string& word) {
  check(s.words.empty() || std::find(s.words.begin(), s.words.end(), word) != s.words.end(),
        "{} is '{}'; one of {}", name, word, fmt::join(s.words, ", "));
}

void check_row(const Setting& s) {
  const std::string name = s.key.substr(s.key.rfind('.') + 1);
  std::visit(
      [&]<class T>(const T* value) {
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
          check_number(s, name, *value);
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          for (const int64_t n : *value) check_number(s, name, n);
        else if constexpr (std::is_same_v<T, std::string>)
          check_word(s, name, *value);
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
          for (const std::string& word : *value) check_word(s, name, word);
      },
      s.value);
}

}  // namespace

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

Setting& Settings::toggle(const std::string& key, bool& value, const char* about) {
  return add(key, &value, "", about);
}

Setting& Settings::word(const std::string& key, std::string& value, std::vector<std::string> words,
                        const char* about) {
  // The type lists the words: that is where completion reads them.
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

Setting& Settings::text(const std::string& key, std::string& value, const char* type,
                        const std::string& about) {
  return add(key, &value, type, about);
}

Setting& Settings::texts(const std::string& key, std::vector<std::string>& value, const char* type,
                         const std::string& about) {
  return add(key, &value, type, about);
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
  for (const Setting& s : settings.rows()) check_row(s);
}

}  // namespace tern::apps
