// The settings of a program, each described once. A configuration is a plain struct, and a function
// lists its members:
//
//   void settings(Settings& s, NtmConfig& c) {
//     s.number("layers", c.layers, {1, 100}, "of the controller, or of the LSTM");
//     s.number("slots", c.slots, {1, 1 << 16}, "of the memory")
//         .only_if(!c.baseline, "an LSTM has no memory");
//     s.word("schedule", c.schedule, training::schedule_names(), "of the learning rate");
//     s.number("clip", c.clip, {0, 1e9}, "largest norm of the gradient; 0: off")
//         .says(c.clip > 0, "clip {:g}", c.clip);
//   }
//
// Everything else is derived from that list: the flag --layers with its bounds and help (and so
// completion and the manual page), the member "layers" of a run's JSON file with the same bounds,
// the text of the recipe, and the error for a flag that would change nothing. A list points at the
// configuration. Make it anew for each use, so that its conditions see the present values.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tern::apps {

/// Numbers from `low` to `high`. An end that is `open` is not included.
struct Bounds {
  double low = 0, high = 1e15;
  bool open_low = false, open_high = false;
};

inline constexpr Bounds kCount{1, 1e9}, kAnyCount{0, 1e9};
inline constexpr Bounds kShare{0, 1, false, true};  ///< at least 0 and below 1
inline constexpr Bounds kAboveZero{0, 1e15, true, false};

/// Groups of flags, in the order of --help and the manual page.
enum class Group { options, data, model, training, optimizer, memory, run, help };

/// A row of the list.
struct Setting {
  std::string key;    ///< name in files; "model.layers" is `layers` in the object `model`
  std::string flags;  ///< "--layers", "--tie,!--no-tie"; empty: none
  std::string about;  ///< description in --help
  std::string type;   ///< type of the value in --help: "N", "DIR", "gpt|llama"
  std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::vector<std::string>*,
               std::vector<int64_t>*>
      value;
  Bounds bounds = {};                   ///< for numbers
  std::vector<std::string> words = {};  ///< allowed texts or numbers; empty: any
  bool counts = true;                   ///< whether the flag has an effect
  std::string why = {};                 ///< why it has none
  std::string phrase = {};              ///< its part of the recipe's text
  bool in_files = true;                 ///< a member of the run's file
  bool may_be_missing = false;          ///< older files may lack it: then it keeps its value
  bool object_may_be_missing = false;   ///< older files may lack the whole object around it
  bool required = false;                ///< the flag must be given
  bool repeated = false;                ///< a list of texts whose flag is given once per text
  Group heading = Group::options;
  /// Called after reading a file that lacks the member.
  std::function<void()> if_missing = {};

  /// Other names of the flag than --KEY; "" for none.
  Setting& flag(std::string names) { return flags = std::move(names), *this; }
  /// The names of the flag: "--tie" and "--no-tie" of "--tie,!--no-tie".
  std::vector<std::string> names() const;
  bool turned_off_by(const std::string& name) const { return flags.ends_with("!" + name); }
  /// Whether its value has no flag on the command line.
  bool is_positional() const { return !flags.empty() && flags[0] != '-'; }
  /// Whether it names a file or folder, or several.
  bool is_path() const;
  bool is_toggle() const { return std::holds_alternative<bool*>(value); }
  /// Whether several words may follow the flag.
  bool is_list() const;
  /// The allowed values; empty if there is no fixed list.
  std::vector<std::string> choices() const;
  Setting& group(Group g) { return heading = g, *this; }
  Setting& must_be_given() { return required = true, *this; }
  Setting& one_each() { return repeated = true, *this; }
  /// Unless the condition holds, giving the flag is an Error: "--FLAG would change nothing: WHY".
  Setting& only_if(bool condition, std::string reason);
  /// If the condition holds, the recipe's text gets fmt::format(text, args...).
  template <class... Args>
  Setting& says(bool condition, fmt::format_string<Args...> text, Args&&... args) {
    if (condition) phrase = fmt::format(text, std::forward<Args>(args)...);
    return *this;
  }
  Setting& not_in_files() { return in_files = false, *this; }
  /// For settings newer than the program's first runs: files may lack it.
  Setting& came_later() { return may_be_missing = true, *this; }
  /// Likewise; `otherwise` sets the value for files that lack it.
  Setting& came_later(std::function<void()> otherwise) {
    return if_missing = std::move(otherwise), came_later();
  }
};

/// The list of settings. A number is a double, int, int64_t or uint64_t. The flag of a setting is
/// --KEY with dashes for underscores.
class Settings {
 public:
  template <class T>
  Setting& number(const std::string& key, T& value, const Bounds& bounds,
                  const std::string& about) {
    Setting& s = add(key, &value, std::is_integral_v<T> ? "N" : "X", about);
    s.bounds = bounds;
    return s;
  }
  /// --KEY sets it to true. A toggle that is true by default needs .flag("--KEY,!--no-KEY").
  Setting& toggle(const std::string& key, bool& value, const char* about) {
    return add(key, &value, "", about);
  }
  /// word(): one of these words. list(): several of them, separated by commas.
  Setting& word(const std::string& key, std::string& value, std::vector<std::string> words,
                const char* about);
  Setting& list(const std::string& key, std::vector<std::string>& value,
                std::vector<std::string> words, const char* type, const char* about);
  /// text(): any text. texts(): several, each a word of the command line. `type`: "FILE", "DIR",
  /// "TEXT".
  Setting& text(const std::string& key, std::string& value, const char* type,
                const std::string& about) {
    return add(key, &value, type, about);
  }
  Setting& texts(const std::string& key, std::vector<std::string>& value, const char* type,
                 const std::string& about) {
    return add(key, &value, type, about);
  }
  /// Several numbers, separated by commas.
  Setting& numbers(const std::string& key, std::vector<int64_t>& value, const Bounds& bounds,
                   const char* type, const char* about);
  /// In files, the rows that `list` adds are members of the object `name`. `came_later`: older
  /// files may lack that object.
  template <class List>
  void inside(const std::string& name, List list, bool came_later = false) {
    const std::string before = std::exchange(prefix_, prefix_ + name + ".");
    const size_t first = rows_.size();
    list();
    prefix_ = before;
    for (size_t i = first; i < rows_.size(); ++i) rows_[i].object_may_be_missing = came_later;
  }

  /// Puts the rows that follow into this group.
  void group(Group g) { group_ = g; }

  const std::deque<Setting>& rows() const { return rows_; }
  /// The row with this key; nullptr if there is none.
  Setting* find(const std::string& key);
  /// The row with this flag, such as "--lr"; nullptr if there is none.
  const Setting* find_flag(const std::string& name) const;

 private:
  template <class T>
  Setting& add(const std::string& key, T* value, const char* type, const std::string& about) {
    return put({.key = prefix_ + key,
                .flags = flag_of(key),
                .about = about,
                .type = type,
                .value = value,
                .heading = group_});
  }
  static std::string flag_of(const std::string& key);
  Setting& put(Setting setting);

  std::deque<Setting> rows_;
  Group group_ = Group::options;
  std::string prefix_;
};

bool is_one_of(const std::vector<std::string>& words, const std::string& word);

/// Keys of settings whose flags were given.
using GivenKeys = std::vector<std::string>;

/// The flags of all rows, each with all its names.
std::vector<std::string> flag_names(const Settings& settings);

/// The phrases of all rows about the recipe, separated by commas.
std::string recipe_text(const Settings& settings);

/// The flags that change the values `from` into the values `to`, such as " --lr 0.1 --no-tie". Both
/// lists have the same rows.
std::string flags_between(const Settings& from, const Settings& to);

/// The settings as the JSON object of a run's file.
std::string settings_to_json(const Settings& settings);
/// Reads JSON into what the list points at. Error if the text is no JSON object, or if a member is
/// missing, unknown, of the wrong type or out of bounds.
void settings_from_json(const std::string& json, const Settings& settings);

/// The list of a configuration C; its JSON; a configuration read from JSON and checked; the flags
/// that turn one configuration into another. REQUIRES: functions `settings(Settings&, C&)` and
/// `check_config(const C&)`; the latter checks what the rows cannot.
template <class C>
Settings settings_of(C& config) {
  Settings list;
  settings(list, config);
  return list;
}
template <class C>
std::string to_json(C config) {
  return settings_to_json(settings_of(config));
}
template <class C>
C config_from_json(const std::string& json) {
  C config;
  settings_from_json(json, settings_of(config));
  check_config(config);
  return config;
}
template <class C>
std::string flags_between(C from, C to) {
  return flags_between(settings_of(from), settings_of(to));
}

/// Error unless every value is within its bounds and among its words. Values from flags already
/// are; values that a program sets itself may not be.
void check_settings(const Settings& settings);
/// Sets a value from words of the command line. Commas may separate the values of lists of numbers
/// or choices; a number may have an exponent. Error, which calls the flag `name`, if a value is out
/// of bounds or not among the choices; if a path is empty, begins with ~, is a URL, or has another
/// ending than those of a type such as "FILE.html|.svg"; if a list whose type ends in "..." has a
/// value twice.
void set_from_words(const Setting& setting, const std::string& name,
                    const std::vector<std::string>& words);

/// The word without leading dashes, in lower case, with - for _.
std::string plain_name(const std::string& word);

/// The word of `known` that is nearest to `word`: a few edits away (swapping neighbours is one
/// edit; capitals, _ for - and leading dashes do not count), or a prefix or extension of it. Empty
/// if none is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

/// "; did you mean WORD?", or empty.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace tern::apps
