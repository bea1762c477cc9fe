// Reads sentence pairs from one table or two aligned files, and counts the skipped ones.
#include "tern/data/text/pairs/pairs.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {
namespace {

class PairFilter {
 public:
  explicit PairFilter(const PairOptions& options) : options_(options) {
    check(options.first >= 0 && options.max_words >= 0,
          "PairOptions: first is {}, max_words is {}; at least 0 each (0: no limit)", options.first,
          options.max_words);
    out_.report.limit = options.max_words;
  }

  bool full() const { return options_.first > 0 && out_.report.kept == options_.first; }

  void count_columns(int64_t columns) {
    PairReport& r = out_.report;
    if (columns > 2 && r.first_wide == 0) r.first_wide = r.lines + 1, r.columns = columns;
  }

  void add(std::string_view source, std::string_view target) {
    const int64_t words = std::ssize(split_spaces(source));
    if (!out_.report.count(words, std::ssize(split_spaces(target)))) return;
    if (options_.reverse) std::swap(source, target);
    out_.pairs.push_back({std::string(source), std::string(target)});
  }

  Pairs take() { return std::move(out_); }

 private:
  PairOptions options_;
  Pairs out_;
};

}  // namespace

bool PairReport::count(int64_t source, int64_t target) {
  ++lines;
  if (source == 0 || target == 0) {
    if (empty++ == 0) first_empty = lines;
    return false;
  }
  if (limit > 0 && std::max(source, target) > limit) {
    if (too_long++ == 0) first_too_long = lines;
    return false;
  }
  ++kept;
  return true;
}

std::string PairReport::summary() const {
  std::string text = fmt::format("{} of {} pairs", kept, lines);
  if (empty + too_long > 0) text += "; left out:";
  if (empty > 0)
    text += fmt::format(" {} with an empty side (the first {} {})", empty, numbered, first_empty);
  if (too_long > 0)
    text += fmt::format("{} {} of more than {} {} (the first {} {})", empty > 0 ? "," : "",
                        too_long, limit, unit, numbered, first_too_long);
  if (first_wide > 0)
    text +=
        fmt::format("; only the first two columns are used: line {} has {}", first_wide, columns);
  return text;
}

Pairs read_pairs_tsv(const std::string& path, const PairOptions& options) {
  const std::vector<std::string> lines = read_lines(path);
  PairFilter filter(options);
  for (size_t i = 0; i < lines.size() && !filter.full(); ++i) {
    const std::string_view line = lines[i];
    const size_t tab = line.find('\t');
    check_io(tab != line.npos || strip_spaces(line).empty(),
             "{}: line {} has no TAB; a line is: source TAB target", path, i + 1);
    filter.count_columns(1 + std::count(line.begin(), line.end(), '\t'));
    if (tab == line.npos) {
      filter.add("", "");
    } else {
      const std::string_view rest = line.substr(tab + 1);
      filter.add(line.substr(0, tab), rest.substr(0, rest.find('\t')));
    }
  }
  return filter.take();
}

Pairs read_pairs(const std::string& source_path, const std::string& target_path,
                 const PairOptions& options) {
  const auto [source, target] = read_aligned(source_path, target_path);
  PairFilter filter(options);
  for (size_t i = 0; i < source.size() && !filter.full(); ++i) filter.add(source[i], target[i]);
  return filter.take();
}

}  // namespace tern::datasets
