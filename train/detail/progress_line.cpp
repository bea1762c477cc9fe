// Lays out the progress bar in a given width, estimates the time left, and breaks lines that are
// too long for the terminal.
#include "tern/train/detail/progress_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace tern::training {
namespace {

constexpr int64_t kBarWidth = 16, kShortBar = 8, kLeastBar = 6;
constexpr const char* kGap = "  ";

// The width of UTF-8 text, at one column per code point.
int64_t width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(kGap, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = std::min(text.find_first_not_of(' ', end), text.size());
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    if (!part.empty()) text += (text.empty() ? "" : kGap) + part;
  return text;
}

std::string time_left(const ProgressText& t, bool part) {
  const std::string left = t.seconds_left < 0 ? "?" : clock_time(t.seconds_left);
  if (t.run_left < 0 || t.seconds_left < 0) return left + " left";
  const std::string all = fmt::format("all {} left", clock_time(t.run_left));
  return part ? fmt::format("epoch {}, {}", left, all) : all;
}

std::string bar_text(double share, int64_t size) {
  const auto full =
      std::clamp<int64_t>(static_cast<int64_t>(share * static_cast<double>(size)), 0, size);
  return fmt::format(" [{}{}]", std::string(static_cast<size_t>(full), '#'),
                     std::string(static_cast<size_t>(size - full), '.'));
}

/// The parts of a line that are shown.
struct Choice {
  int64_t bar = 0;  // smallest width of the bar; 0: no bar
  bool speed = false, part = false, time = true;
  size_t notes = SIZE_MAX;
};

std::string after_bar(const ProgressText& t, const Choice& choice) {
  std::vector<std::string> shown = parts_of(t.note);
  shown.resize(std::min(shown.size(), choice.notes));
  if (choice.speed) shown.push_back(t.speed);
  if (choice.time) shown.push_back(time_left(t, choice.part));
  const std::string text = joined(shown);
  return fmt::format(" {:3.0f}%{}{}", t.share * 100, text.empty() ? "" : kGap, text);
}

// The line; empty if it does not fit.
std::string line_with(const ProgressText& t, const Choice& choice, int64_t columns) {
  const std::string after = after_bar(t, choice);
  const int64_t others = width(t.label) + width(after);
  if (choice.bar == 0) return others <= columns ? t.label + after : "";
  const int64_t bar = std::min(kBarWidth, columns - others - 3);  // 3: the space and two brackets
  return bar >= choice.bar ? t.label + bar_text(t.share, bar) + after : "";
}

// The choices for a line, from the longest to the shortest.
std::vector<Choice> choices(size_t notes) {
  std::vector<Choice> list = {{.bar = kShortBar, .speed = true, .part = true},
                              {.bar = kLeastBar, .part = true},
                              {.part = true}};
  for (; notes > 0; --notes) list.push_back({.notes = notes});
  list.push_back({.time = false, .notes = 1});
  list.push_back({.time = false, .notes = 0});
  return list;
}

// The line without the parts for which is(part) is true. The log has them.
template <class Is>
std::string without(const std::string& line, Is is) {
  std::vector<std::string> parts = parts_of(line);
  std::erase_if(parts, is);
  return joined(parts);
}

bool is_epoch_line(const std::string& line) { return line.starts_with("epoch "); }

// The indent of the lines after a break: where the text begins if spaces come first, else where the
// second part begins.
size_t hanging_indent(const std::string& line, int64_t columns) {
  const size_t text = std::min(line.find_first_not_of(' '), line.size());
  size_t at = text;
  if (text == 0) {
    const size_t gap = line.find(kGap);
    at = gap == line.npos ? 2 : std::min(line.find_first_not_of(' ', gap), line.size());
  }
  return static_cast<int64_t>(at) <= columns / 3 ? at : 2;
}

// Where to break `line` so that the text before has at most `columns`, if possible: between parts
// if that leaves more than half a line, else between words; npos if there is no such place after
// `from`.
size_t place_to_break(const std::string& line, size_t from, int64_t columns) {
  size_t word = line.npos, part = line.npos;
  int64_t used = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == ' ' && i > from && line[i - 1] != ' ') {
      if (used > columns && word != line.npos) break;
      word = i;
      if (line.compare(i, 2, kGap) == 0 && used <= columns) part = i;
    }
    used += (line[i] & 0xC0) != 0x80;
  }
  return part != line.npos && static_cast<int64_t>(part) > columns / 2 ? part : word;
}

std::string broken(std::string line, int64_t columns) {
  const std::string indent(hanging_indent(line, columns), ' ');
  std::string out;
  size_t from = std::min(line.find_first_not_of(' '), line.size());
  if (from == 0) from = indent.size();
  while (width(line) > columns) {
    const size_t at = place_to_break(line, from, columns);
    if (at == line.npos) break;
    out += line.substr(0, at) + '\n';
    line = indent + line.substr(std::min(line.find_first_not_of(' ', at), line.size()));
    from = indent.size();
  }
  return out + line;
}

std::string fitted_line(std::string line, int64_t columns) {
  if (is_epoch_line(line) && width(line) > columns)
    line = without(line, [](const std::string& p) { return p.starts_with("lr "); });
  if (is_epoch_line(line) && width(line) > columns)
    line = without(line, [](const std::string& p) { return p.ends_with("/s"); });
  return width(line) > columns ? broken(std::move(line), columns) : line;
}

}  // namespace

std::string progress_line(const ProgressText& t, int64_t columns) {
  for (const Choice& choice : choices(parts_of(t.note).size()))
    if (std::string line = line_with(t, choice, columns); !line.empty()) return line;
  return fmt::format("{:.{}}", t.label, columns);
}

std::string progress_log_line(const ProgressText& t) {
  return t.label + after_bar(t, {.speed = true, .part = true});
}

SecondsLeft seconds_left(double seconds, int64_t done, int64_t left, int64_t total,
                         const PartsToCome& to_come) {
  constexpr double kLeast = 2;  // seconds; earlier estimates were up to three times too long
  const bool young = seconds < kLeast || done <= 0;
  if (young && to_come.pace <= 0) return {};
  const double unit = young ? to_come.pace : seconds / static_cast<double>(done);
  const double between = to_come.seconds > 0 ? to_come.seconds : unit * to_come.units;
  SecondsLeft time{.part = unit * static_cast<double>(left)};
  if (to_come.count > 0 || between > 0)
    time.run = time.part + between +
               static_cast<double>(to_come.count) * (unit * static_cast<double>(total) + between);
  return time;
}

std::string fitted(const std::string& text, int64_t columns) {
  if (columns <= 0) return text;
  std::string out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) out += '\n';
    out += fitted_line(text.substr(at, end - at), columns);
    at = end + 1;
  }
  return out;
}

}  // namespace tern::training
