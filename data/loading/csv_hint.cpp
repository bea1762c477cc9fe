// Tries other separators and decimal points on a line that cannot be read, and suggests those that
// give the most numbers.
#include "tern/data/loading/detail/csv_hint.h"

#include <fmt/format.h>

#include <algorithm>

namespace tern::datasets::detail {
namespace {

// Joins fields to the line that they came from, without its quotes.
std::string joined(const std::vector<std::string>& fields, char separator) {
  return fmt::format("{}", fmt::join(fields, std::string(1, separator)));
}

// Cuts a line into parts. For ' ', any number of spaces and tabs separates parts.
std::vector<std::string_view> parts_of(std::string_view line, char separator) {
  std::vector<std::string_view> parts;
  const std::string ends = separator == ' ' ? " \t" : std::string(1, separator);
  while (true) {
    const size_t end = line.find_first_of(ends);
    const std::string_view part = line.substr(0, end);
    if (separator != ' ' || !part.empty()) parts.push_back(part);
    if (end == line.npos) return parts;
    line.remove_prefix(end + 1);
  }
}

int64_t numbers(const std::vector<std::string_view>& parts, char decimal) {
  return std::count_if(parts.begin(), parts.end(), [&](std::string_view part) {
    return is_csv_number(part, decimal) && part.find_first_of("0123456789") != part.npos;
  });
}

// Whether commas may separate the thousands of a number: "1,000".
bool has_thousands(const std::vector<std::string_view>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return part.size() >= 5 && part[part.size() - 4] == ',';
  });
}

std::string name_of(char separator) {
  return separator == '\t' ? "'\\t'" : fmt::format("'{}'", separator);
}

}  // namespace

std::string csv_hint(const std::vector<std::string>& first, const std::vector<std::string>& fields,
                     char separator, char decimal) {
  const std::string head = joined(first, separator), line = joined(fields, separator);
  const std::vector<std::string_view> as_it_is(fields.begin(), fields.end());
  int64_t best = numbers(as_it_is, decimal);
  if (first.size() != fields.size()) best = 0;
  std::string found;
  // The present separator comes first, so that a hint changes only the decimal point if that helps.
  for (const char s : {separator, ';', '\t', '|', ',', ' '})
    for (const char point : {decimal, '.', ','}) {
      if (s == point && (s != separator || has_thousands(as_it_is))) continue;
      const auto parts = s == separator ? as_it_is : parts_of(line, s);
      const size_t names = s == separator ? first.size() : parts_of(head, s).size();
      const int64_t count = numbers(parts, point);
      if (parts.size() != names || count <= best || (s != separator && names == 1)) continue;
      best = count;
      std::vector<std::string> options;
      if (s != separator || s == point)
        options.push_back(fmt::format("CsvOptions::separator = {}", name_of(s)));
      if (point != decimal) options.push_back(fmt::format("CsvOptions::decimal = '{}'", point));
      found = fmt::format("; {} would read {} columns here", fmt::join(options, " and "), names);
    }
  return found;
}

std::string csv_name_hint(const std::vector<std::string>& first, const std::string& name,
                          char separator) {
  const std::string head = joined(first, separator);
  for (const char s : {';', '\t', '|', ',', ' '}) {
    const auto parts = parts_of(head, s);
    if (s != separator && std::find(parts.begin(), parts.end(), name) != parts.end())
      return fmt::format("; CsvOptions::separator = {} would find it", name_of(s));
  }
  return "";
}

}  // namespace tern::datasets::detail
