#include "tern/data/loading/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "tern/core/io/safetensors.h"
#include "tern/core/io/state.h"
#include "tern/core/ops/ops.h"
#include "tern/data/loading/gzip.h"

namespace tern::datasets {
namespace {

constexpr int64_t kCsvBuffer = 64 * 1024;
constexpr size_t kMaxField = 1 << 20;

char separator_of(char given, const std::string& path) {
  if (given != 0) return given;
  return path.ends_with(".tsv") || path.ends_with(".tsv.gz") ? '\t' : ',';
}

// Shortens text for messages and makes it safe for terminals.
std::string shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 40))
    out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c);
  return text.size() > 40 ? out + "..." : out;
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

bool is_missing(std::string_view field) {
  std::string small;
  for (char c : field.substr(0, 5))
    small.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  for (std::string_view word : {"", "na", "n/a", "nan", "null", "none"})
    if (small == word) return true;
  return false;
}

// Reads records of fields, one at a time.
class Records {
 public:
  Records(const std::string& path, const CsvOptions& o)
      : file_(path, {.max_bytes = o.max_bytes}),
        separator_(separator_of(o.separator, path)),
        most_(static_cast<size_t>(o.max_columns)),
        buffer_(kCsvBuffer) {}

  // Returns false at the end. Sets `line` to the beginning of the record.
  bool next(std::vector<std::string>& fields) {
    do {
      line_ = next_line_;
      fields.assign(1, "");
      quoted_ = false;
      if (peek() < 0) return false;
      read_record(fields);
    } while (fields.size() == 1 && fields[0].empty() && !quoted_);
    return true;
  }
  int64_t line() const { return line_; }
  [[noreturn]] void fail(const std::string& what) const {
    fail_io(fmt::format("{}: line {}: {}", file_.path(), line_, what));
  }

 private:
  int peek() {
    if (at_ == end_) {
      const bool first = end_ == 0;
      end_ = static_cast<size_t>(file_.read(buffer_.data(), std::ssize(buffer_)));
      at_ = 0;
      if (first && std::string_view(buffer_.data(), end_).starts_with("\xef\xbb\xbf")) at_ = 3;
      if (end_ == at_) return -1;
    }
    return static_cast<unsigned char>(buffer_[at_]);
  }
  int take() {
    const int c = peek();
    at_ += c >= 0;
    next_line_ += c == '\n';
    return c;
  }

  void read_record(std::vector<std::string>& fields) {
    while (true) {
      const int c = take();
      std::string& field = fields.back();
      if (c == '"' && field.empty()) {
        read_quoted(field);
        continue;
      }
      if (c == '\r' && (peek() == '\n' || peek() < 0)) continue;
      if (c < 0 || c == '\n') return;
      if (c == separator_) {
        if (fields.size() >= most_)
          fail(fmt::format("more than {} fields; CsvOptions::max_columns can allow more", most_));
        fields.emplace_back();
      } else {
        append(field, c);
      }
    }
  }

  // Reads from after the first quote to after the last; only the end of the field may follow.
  void read_quoted(std::string& field) {
    quoted_ = true;
    while (true) {
      const int c = take();
      if (c < 0) fail("a quoted field has no end");
      if (c == '"') {
        if (peek() != '"') break;
        take();
      }
      append(field, c);
    }
    const int next = peek();
    if (next >= 0 && next != separator_ && next != '\n' && next != '\r')
      fail(fmt::format("something follows the quoted field '{}'", shown(field)));
  }

  void append(std::string& field, int c) {
    if (field.size() == kMaxField) fail(fmt::format("a field of more than {} bytes", kMaxField));
    field.push_back(static_cast<char>(c));
  }

  ByteReader file_;
  int separator_;
  size_t most_;  // fields of a line
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  int64_t line_ = 1, next_line_ = 1;
  bool quoted_ = false;
};

// Of a decimal number that no type has: whether it is too small, not too large.
bool is_below_1(std::string_view text) {
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  const size_t point = std::min(text.find('.'), e), first = text.find_first_of("123456789");
  std::string_view digits = text.substr(std::min(e + 1, text.size()));
  if (digits.starts_with('+')) digits.remove_prefix(1);
  int exponent = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec ==
      std::errc::result_out_of_range)
    return digits.starts_with('-');
  const int64_t power = exponent + static_cast<int64_t>(point) - static_cast<int64_t>(first);
  return power < (first < point ? 1 : 0);
}

// Converts all of `text` to a T; false if it is not one or does not fit. What is too small for the
// type is 0.
template <class T>
bool parse(std::string_view text, T& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (rest != text.data() + text.size()) return false;
  if (error != std::errc::result_out_of_range || !is_float(dtype_of<T>) || !is_below_1(text))
    return error == std::errc();
  value = text.starts_with('-') ? -T(0) : T(0);
  return true;
}

struct Columns {
  std::vector<std::string> names;
  std::vector<size_t> places;  // of those to read
  size_t width;                // fields of a line
};

Columns choose(const Records& file, const std::vector<std::string>& all, const CsvOptions& o) {
  const size_t width = all.size();
  Columns c{o.columns.empty() ? all : o.columns, {}, width};
  std::unordered_map<std::string_view, size_t> places;
  for (const std::string& name : all)
    if (!places.emplace(name, places.size()).second)
      file.fail(fmt::format("two columns are called '{}'", shown(name)));
  for (const std::string& name : c.names) {
    const auto found = places.find(name);
    if (found == places.end())
      file.fail(fmt::format("there is no column '{}'; the nearest is '{}'", shown(name),
                            shown(nearest_name(name, all))));
    c.places.push_back(found->second);
  }
  return c;
}

template <class T>
T number_of(const Records& file, const std::string& column, std::string_view field,
            const CsvOptions& o) {
  T value{};
  field = trimmed(field);
  if (is_missing(field)) {
    if (o.missing) return static_cast<T>(*o.missing);
    file.fail(
        fmt::format("column '{}': the number is missing; CsvOptions::missing would stand for "
                    "it",
                    shown(column)));
  }
  if (parse(field, value)) return value;
  file.fail(fmt::format(
      "column '{}': '{}' is no {}", shown(column), shown(field),
      is_float(dtype_of<T>) ? "number" : fmt::format("number of type {}", dtype_of<T>)));
}

template <class T>
Table read_table(Records& file, const CsvOptions& o) {
  std::vector<std::string> fields;
  bool more = file.next(fields);
  if (!more) file.fail("the file is empty");
  std::vector<std::string> names = fields;
  for (size_t i = 0; i < names.size(); ++i)
    names[i] = o.header ? std::string(trimmed(fields[i])) : std::to_string(i);
  const Columns columns = choose(file, names, o);
  if (o.header) more = file.next(fields);
  std::vector<T> values;
  int64_t rows = 0;
  for (; more; more = file.next(fields), ++rows) {
    if (fields.size() != columns.width)
      file.fail(fmt::format("{} fields, but the first line has {}", fields.size(), columns.width));
    for (size_t i = 0; i < columns.places.size(); ++i)
      values.push_back(number_of<T>(file, columns.names[i], fields[columns.places[i]], o));
  }
  return {columns.names, tensor(values, {rows, std::ssize(columns.names)})};
}

std::string quoted(const std::string& name, char separator) {
  if (name.find_first_of(std::string("\"\r\n ") + separator) == name.npos && !name.empty())
    return name;
  std::string out = "\"";
  for (char c : name) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

}  // namespace

Table load_csv(const std::string& path, const CsvOptions& o) {
  check(o.separator != '"' && o.separator != '\n' && o.separator != '\r',
        "load_csv: a quote or the end of a line cannot separate fields");
  if (o.missing && !is_float(o.dtype))
    check(std::trunc(*o.missing) == *o.missing && std::abs(*o.missing) < 0x1p53 &&
              (o.dtype != DType::u8 || (*o.missing >= 0 && *o.missing < 256)),
          "load_csv: {} cannot stand for a missing {}", *o.missing, o.dtype);
  check(o.max_columns >= 1, "load_csv: at most {} columns; 1 or more", o.max_columns);
  Records file(path, o);
  return dispatch(o.dtype, [&]<class T>() { return read_table<T>(file, o); });
}

void save_csv(const std::string& path, const Tensor& values, const SaveCsvOptions& o) {
  check(values.defined() && values.ndim() == 2, "save_csv: needs a (rows, columns) tensor");
  const int64_t rows = values.size(0), columns = values.size(1);
  check(o.names.empty() || std::ssize(o.names) == columns, "save_csv: {} names for {} columns",
        o.names.size(), columns);
  const char separator = separator_of(o.separator, path);
  std::string text;
  for (size_t i = 0; i < o.names.size(); ++i) {
    if (i > 0) text += separator;
    text += quoted(o.names[i], separator);
  }
  if (!o.names.empty()) text += '\n';
  const Tensor t = values.detach().contiguous();
  dispatch(t.dtype(), [&]<class T>() {
    const T* p = t.numel() > 0 ? t.data<T>() : nullptr;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        text += fmt::format("{}", *p++);  // the shortest that is read back the same
        text += c + 1 < columns ? separator : '\n';
      }
  });
  write_file_atomically(path, text);
}

}  // namespace tern::datasets
