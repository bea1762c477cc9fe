// Reads and checks the values of settings from words and from JSON, writes them as JSON, and finds
// the nearest word to a misspelt one.
#include "tern/apps/common/command_line/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "tern/apps/common/command_line/proposals.h"
#include "tern/core/base/error.h"
#include "tern/core/base/parse_number.h"
#include "tern/core/io/json_text.h"

namespace tern::apps {
namespace {

using nlohmann::json;

std::vector<std::string> split(const std::string& text, char between) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(between, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

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

void check_word(const Setting& s, const std::string& name, const std::string& word) {
  check(s.words.empty() || is_one_of(s.words, word), "{} is '{}'; it must be one of {}{}", name,
        word, fmt::join(s.words, ", "), did_you_mean_value(word, s.words));
}

template <class T>
void check_number(const Setting& s, const std::string& name, T value) {
  check(is_in(s.bounds, static_cast<double>(value)), "{} is {}; it must be {}", name, value,
        number_rule(s.bounds, std::is_integral_v<T>));
  check_word(s, name, fmt::format("{}", value));
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

// Error if a list whose type ends in "..." has a value twice.
template <class T>
void check_differ(const Setting& s, const std::string& name, const std::vector<T>& values) {
  if (!s.type.ends_with("...")) return;
  for (auto v = values.begin(); v != values.end(); ++v)
    check(std::find(values.begin(), v, *v) == v, "{} names {} twice; once is enough", name, *v);
}

// Refuses words that the user did not mean as a path: an empty one from an unset shell variable, a
// ~ that the shell did not expand, a URL. They would name other data, or make a folder called ~.
// Refuses other endings than those of "FILE.html|.svg", which say the format.
void check_path(const Setting& s, const std::string& name, const std::string& word) {
  if (!s.is_path()) return;
  check(!word.empty(),
        "{} is empty, but must name a {}; if you gave a shell variable, it is not set", name,
        !s.type.starts_with("DIR")   ? "file"
        : s.type.starts_with("DIR|") ? "file or a folder"
                                     : "folder");
  std::error_code error;
  check(word[0] != '~' || !word.substr(0, word.find('/')).ends_with('~') ||
            std::filesystem::exists("~", error),
        "{} is '{}': a shell replaces ~ only at the beginning of a word without quotes; write {} "
        "$HOME{}",
        name, word, name, word.substr(1));
  check(word.find("://") == word.npos,
        "{} is '{}': the programs download nothing; fetch the file, and give its name", name, word);
  if (!s.type.starts_with("FILE.") || s.type.find('|') == s.type.npos) return;
  const std::vector<std::string> endings = split(s.type.substr(std::string("FILE").size()), '|');
  check(std::any_of(endings.begin(), endings.end(),
                    [&](const std::string& ending) { return word.ends_with(ending); }),
        "{} {}: the name must end in {}", name, word, fmt::join(endings, " or "));
}

// Proposes "3000" for "3,000", "0.1" for "0,1", "50000" for "50k", if that number is valid.
template <class T>
std::string number_meant(const Setting& s, const std::string& word) {
  std::string plain;
  for (const char c : word)
    if (c == ',' && !std::is_integral_v<T>)
      plain += '.';
    else if (c != ',' && c != '_' && c != '\'')
      plain += c;
  if (plain.ends_with('k') || plain.ends_with('K')) plain.back() = 'e', plain += '3';
  if (plain.ends_with('m') || plain.ends_with('M')) plain.back() = 'e', plain += '6';
  double v = 0;
  const auto [end, error] = detail::parse_number(plain.data(), plain.data() + plain.size(), v);
  const bool whole = std::is_integral_v<T>;
  const bool may_be = error == std::errc() && end == plain.data() + plain.size() &&
                      is_in(s.bounds, v) && (!whole || v == std::floor(v));
  return plain == word || !may_be ? "" : fmt::format("; did you mean {:.15g}?", v);
}

template <class T>
T read_number(const Setting& s, const std::string& name, const std::string& word) {
  double v = 0;
  const auto [end, error] = detail::parse_number(word.data(), word.data() + word.size(), v);
  const bool whole = std::is_integral_v<T>;
  check(error == std::errc() && end == word.data() + word.size() && is_in(s.bounds, v) &&
            (!whole || v == std::floor(v)),
        "{} is '{}'; it must be {}{}", name, word, number_rule(s.bounds, whole),
        number_meant<T>(s, word));
  return static_cast<T>(v);
}

bool read_bool(const std::string& name, const std::string& word) {
  for (const char* yes : {"true", "on", "yes", "1"})
    if (word == yes) return true;
  for (const char* no : {"false", "off", "no", "0"})
    if (word == no) return false;
  fail(fmt::format("{} is '{}'; it must be true or false", name, word));
}

constexpr size_t kLongest = 64;     // longer words are not compared
constexpr size_t kLeastPrefix = 3;  // letters that two words must have in common

// The Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions
// and swaps of neighbouring letters.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// ---- JSON files ---------------------------------------------------------------------------------

// The type that `given` should have; nullptr if it has it.
const char* complaint(const json& given, const json& expected) {
  if (expected.is_boolean()) return given.is_boolean() ? nullptr : "true or false";
  if (expected.is_string()) return given.is_string() ? nullptr : "a text in quotes";
  if (expected.is_number_float()) return given.is_number() ? nullptr : "a number";
  // The JSON parser reads a number without a sign as unsigned.
  if (expected.is_number_integer()) {
    if (!given.is_number_integer()) return "a whole number";
    const bool large = given.is_number_unsigned() && given.get<uint64_t>() > INT64_MAX;
    if (expected.is_number_unsigned())
      return given.is_number_unsigned() || given.get<int64_t>() >= 0 ? nullptr : "0 or more";
    return large ? "a whole number below 2^63" : nullptr;
  }
  if (expected.is_array()) {
    for (const json& item : given)
      if (!given.is_array() || !item.is_string()) return "a list of texts";
    return given.is_array() ? nullptr : "a list of texts";
  }
  return given.is_object() ? nullptr : "an object";
}

std::string shown(const json& value) {
  constexpr size_t kMost = 40;
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

// Error, which names the member, unless `given` has every member of the object `expected` with the
// same type. So no number is truncated or wraps around.
void check_types(const json& given, const json& expected) {
  check(given.is_object(), "its configuration is {}; it must be an object", shown(given));
  for (const auto& [name, value] : expected.items()) {
    const auto found = given.find(name);
    check(found != given.end(),
          "its configuration: {} is missing; is this the folder of another program?", name);
    const char* wrong = complaint(*found, value);
    check(!wrong, "{} is {}; it must be {}", name, shown(*found), wrong ? wrong : "");
    if (value.is_object()) check_types(*found, value);
  }
}

// Error, which names the member, if `given` has one that the object `expected` lacks: its value
// would change nothing.
void check_known(const json& given, const json& expected) {
  for (const auto& [name, value] : given.items()) {
    const auto found = expected.find(name);
    if (found == expected.end()) {
      std::vector<std::string> known;
      for (const auto& member : expected.items()) known.push_back(member.key());
      fail(fmt::format("its configuration: this version of tern knows no {}{}", shown(name),
                       did_you_mean(name, known)));
    }
    if (found->is_object()) check_known(value, *found);
  }
}

json::json_pointer pointer_to(const Setting& s) {
  std::string path = "/" + s.key;
  for (char& c : path)
    if (c == '.') c = '/';
  return json::json_pointer(path);
}

json to_object(const Settings& settings) {
  json object = json::object();
  for (const Setting& s : settings.rows())
    if (s.in_files) std::visit([&](const auto* value) { object[pointer_to(s)] = *value; }, s.value);
  return object;
}

// Adds members that files of earlier versions lack, with their present values.
void add_missing(json& object, const json& defaults, const Settings& settings) {
  const json given = object;
  for (const Setting& s : settings.rows()) {
    const json::json_pointer at = pointer_to(s), above = at.parent_pointer();
    const bool there = given.contains(above);
    if (!s.in_files || (there ? !given[above].is_object() || given.contains(at) : false)) continue;
    if (there ? s.may_be_missing : s.object_may_be_missing) object[at] = defaults[at];
  }
}

void read_members(json object, const Settings& settings) {
  const json expected = to_object(settings), given = object;
  if (object.is_object()) add_missing(object, expected, settings);
  check_types(object, expected);
  check_known(object, expected);
  for (const Setting& s : settings.rows())
    if (s.in_files) std::visit([&](auto* value) { object[pointer_to(s)].get_to(*value); }, s.value);
  for (const Setting& s : settings.rows())
    if (s.if_missing && !given.contains(pointer_to(s))) s.if_missing();
  check_settings(settings);
}

}  // namespace

std::string plain_name(const std::string& word) {
  std::string out = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  for (char& c : out)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  const std::string a = plain_name(word);
  if (a.empty() || a.size() > kLongest) return "";
  std::string best;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string& k : known) {
    const std::string b = plain_name(k);
    const size_t common = std::min(a.size(), b.size());
    size_t steps = distance(a, b);
    const bool near = steps <= std::max<size_t>(1, common / 3) && steps < common;
    const bool prefix = common >= kLeastPrefix && a.compare(0, common, b, 0, common) == 0;
    if (prefix) steps = std::min<size_t>(steps, 2);  // prefers it to words that are near by chance
    if ((near || prefix) && steps < least) {
      least = steps;
      best = k;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string best = nearest_word(word, known);
  return best.empty() ? "" : "; did you mean " + best + "?";
}

std::vector<std::string> Setting::names() const {
  if (flags.empty()) return {};
  std::vector<std::string> names = split(flags, ',');
  for (std::string& name : names) name.erase(0, name[0] == '!');
  return names;
}

bool Setting::is_path() const {
  return type.starts_with("DIR") || type.starts_with("FILE") || type.starts_with("TAR.GZ");
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

const Setting* Settings::find_flag(const std::string& name) const {
  for (const Setting& s : rows_)
    if (!s.is_positional() && is_one_of(s.names(), name)) return &s;
  return nullptr;
}

bool is_one_of(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string flags_between(const Settings& source, const Settings& target) {
  std::string text;
  for (size_t i = 0; i < target.rows().size(); ++i) {
    const Setting& s = target.rows()[i];
    std::visit(
        [&]<class T>(const T* value) {
          if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
            if (s.flags.empty() || *value == *std::get<T*>(source.rows()[i].value)) return;
            if constexpr (std::is_same_v<T, bool>) {  // "--tie,!--no-tie" or "--tie"
              const size_t off = s.flags.find('!');
              const std::string on = s.flags.substr(0, s.flags.find(','));
              text += " " + (*value                ? on
                             : off == s.flags.npos ? on + "=false"
                                                   : s.flags.substr(off + 1));
            } else
              text += fmt::format(" {} {}", s.flags, *value);
          }
        },
        s.value);
  }
  return text;
}

std::vector<std::string> flag_names(const Settings& settings) {
  std::vector<std::string> all;
  for (const Setting& s : settings.rows())
    for (std::string& name : s.names())
      if (!s.is_positional()) all.push_back(std::move(name));
  return all;
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
  for (const std::string& word : words) check_path(s, name, word);
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

std::string settings_to_json(const Settings& settings) { return to_object(settings).dump(1); }

void settings_from_json(const std::string& text, const Settings& settings) {
  read_members(parse_json(text), settings);
}

}  // namespace tern::apps
