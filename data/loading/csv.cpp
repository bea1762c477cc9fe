// Reads and writes CSV tables: Records splits the text into fields, choose() finds the requested
// columns, Codes numbers the names of a text column.
#include "tern/data/loading/csv.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_map>

#include "tern/core/base/parse_number.h"
#include "tern/core/base/printable.h"
#include "tern/core/base/utf8.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/io/state.h"
#include "tern/core/ops/ops.h"
#include "tern/data/loading/detail/csv_hint.h"
#include "tern/data/loading/text_decoder.h"

namespace tern::datasets {
namespace {

constexpr int64_t kCsvBuffer = 64 * 1024;
constexpr size_t kMaxField = 1 << 20;

char separator_of(char given, const std::string& path, char decimal = '.') {
  if (given != 0) return given;
  return path.ends_with(".tsv") || path.ends_with(".tsv.gz") ? '\t' : decimal == ',' ? ';' : ',';
}

// Shortens text for messages and makes it safe for terminals.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 40;
  const std::string out = printable(std::string(text.substr(0, kMost)));
  return text.size() > kMost ? out + "..." : out;
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

bool is_missing(std::string_view field) {
  const std::string small = lower_ascii(std::string(field.substr(0, 5)));
  for (std::string_view word : {"", "na", "n/a", "nan", "-nan", "+nan", "null", "none"})
    if (small == word) return true;
  return false;
}

// Reads records of fields, one at a time.
class Records {
 public:
  Records(const std::string& path, const CsvOptions& o)
      : file_(path, {.max_bytes = o.max_bytes}),
        separator_(separator_of(o.separator, path, o.decimal)),
        most_(static_cast<size_t>(o.max_columns)),
        buffer_(kCsvBuffer) {
    read_separator_line(o);
  }

  // Returns false at the end. line() is then the first line of the record.
  bool next(std::vector<std::string>& fields) {
    do {
      line_ = next_line_;
      fields.assign(1, "");
      quoted_.assign(1, false);
      if (peek() < 0) return false;
      read_record(fields);
    } while (fields.size() == 1 && fields[0].empty() && !quoted_[0]);
    return true;
  }
  // Whether this field of the record is in quotes.
  bool quoted(size_t field) const { return quoted_[field]; }
  int64_t line() const { return line_; }
  char separator() const { return static_cast<char>(separator_); }
  /// Refuses a name that is not UTF-8. The error begins with `what`, such as "the column".
  void check_name(const std::string& what, const std::string& name) const {
    if (const auto at = find_invalid_utf8(name))
      fail(
          fmt::format("{} '{}' is not valid UTF-8 (byte {} of it); convert the file, for example "
                      "with iconv -f latin1 -t utf-8",
                      what, shown(name), *at + 1));
  }
  [[noreturn]] void fail(const std::string& what) const {
    fail_io(fmt::format("{}: line {}: {}", file_.file().path(), line_, what));
  }

 private:
  int peek() {
    if (at_ == end_) {
      end_ = static_cast<size_t>(file_.read(buffer_.data(), std::ssize(buffer_)));
      at_ = 0;
      if (end_ == 0) return -1;
    }
    return static_cast<unsigned char>(buffer_[at_]);
  }
  // Takes a byte and counts lines, which end with LF, CRLF or CR.
  int take() {
    const int c = peek();
    at_ += c >= 0;
    next_line_ += c == '\r' || (c == '\n' && !after_return_);
    after_return_ = c == '\r';
    return c;
  }
  bool is_blank(int c) const { return separator_ == ' ' && (c == ' ' || c == '\t'); }
  void skip_blanks() {
    while (is_blank(peek())) take();
  }

  // Reads Excel's first line "sep=;", which is not the header.
  void read_separator_line(const CsvOptions& o) {
    constexpr std::string_view kWord = "sep=";
    peek();
    const std::string_view text(buffer_.data(), end_);
    const size_t end = kWord.size() + 1;
    const bool ends =
        text.size() == end || (text.size() > end && (text[end] == '\n' || text[end] == '\r'));
    if (!ends || !text.starts_with(kWord)) return;
    const char named = text[kWord.size()];
    if (named == '"' || named == '\n' || named == '\r') return;
    if (o.separator != 0 && o.separator != named)
      fail(fmt::format("the line '{}' contradicts CsvOptions::separator = '{}'",
                       text.substr(0, end), o.separator));
    if (o.separator == 0 && named == o.decimal)
      fail(fmt::format("the line '{}' contradicts CsvOptions::decimal = '{}'", text.substr(0, end),
                       o.decimal));
    separator_ = named;
    at_ = end;
    if (peek() == '\r') take();
    if (peek() == '\n') take();
  }

  void read_record(std::vector<std::string>& fields) {
    skip_blanks();
    while (true) {
      const int c = take();
      std::string& field = fields.back();
      if (c == '"' && field.empty()) {
        read_quoted(field);
        continue;
      }
      if (c == '\r' && peek() == '\n') take();
      if (c < 0 || c == '\n' || c == '\r') return;
      if (is_blank(c)) {
        skip_blanks();
        if (peek() < 0 || peek() == '\n' || peek() == '\r') continue;
      }
      if (c == separator_ || is_blank(c)) {
        if (fields.size() >= most_)
          fail(fmt::format("more than {} fields; CsvOptions::max_columns can allow more", most_));
        fields.emplace_back();
        quoted_.push_back(false);
      } else {
        append(field, c);
      }
    }
  }

  // Reads from after the first quote to after the last; only the end of the field may follow.
  void read_quoted(std::string& field) {
    quoted_.back() = true;
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
    if (next >= 0 && next != separator_ && !is_blank(next) && next != '\n' && next != '\r')
      fail(fmt::format("something follows the quoted field '{}'", shown(field)));
  }

  void append(std::string& field, int c) {
    if (field.size() == kMaxField) fail(fmt::format("a field of more than {} bytes", kMaxField));
    field.push_back(static_cast<char>(c));
  }

  Utf8Reader file_;
  int separator_;
  size_t most_;  // limit of fields per line
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  int64_t line_ = 1, next_line_ = 1;
  std::vector<bool> quoted_;
  bool after_return_ = false;
};

// Tells why a decimal number is out of range: true if it is too small, false if too large.
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

// Converts all of `text` to a T. Returns false if it is not a T, or is an integer that does not
// fit. A float that is too small for the type becomes 0, one that is too large becomes infinite.
template <class T>
bool parse(std::string_view text, T& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [rest, error] =
      tern::detail::parse_number(text.data(), text.data() + text.size(), value);
  if (rest != text.data() + text.size()) return false;
  // std::from_chars takes "nan(0x1)" too.
  if (error == std::errc() && is_float(dtype_of<T>) && std::isnan(static_cast<double>(value)))
    return false;
  if (error != std::errc::result_out_of_range || !is_float(dtype_of<T>))
    return error == std::errc();
  const T most = is_below_1(text) ? T(0) : std::numeric_limits<T>::infinity();
  value = text.starts_with('-') ? -most : most;
  return true;
}

// Replaces the decimal point by '.', which std::from_chars expects. `kept` holds the new text.
std::string_view with_point(std::string_view field, char decimal, std::string& kept) {
  if (decimal == '.' || field.find_first_of(".,") == field.npos) return field;
  kept = field;
  for (char& c : kept) c = c == decimal ? '.' : c == '.' ? '?' : c;
  return kept;
}

std::string nearest_text(const std::string& name, const std::vector<std::string>& names) {
  constexpr size_t kMost = 256;  // bytes; the time grows with the product of both lengths
  if (name.size() > kMost) return "";
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? "" : fmt::format("; the nearest is '{}'", shown(nearest));
}

// The requested columns and their places in a line.
struct Columns {
  std::vector<std::string> names;
  std::vector<size_t> places, texts;  // field numbers of number columns and of text columns
  std::vector<std::string> first;     // the fields of the first line
};

Columns choose(const Records& file, const std::vector<std::string>& all, const CsvOptions& o) {
  Columns c{o.columns, {}, {}, all};
  std::unordered_map<std::string_view, size_t> places;
  for (const std::string& name : all) {
    file.check_name("the column", name);
    if (!places.emplace(name, places.size()).second)
      file.fail(fmt::format("two columns are called '{}'", shown(name)));
  }
  const auto place_of = [&](const std::string& name) {
    const auto found = places.find(name);
    if (found == places.end())
      file.fail(fmt::format("there is no column '{}'{}{}", shown(name), nearest_text(name, all),
                            detail::csv_name_hint(all, name, file.separator())));
    return found->second;
  };
  std::vector<bool> is_text(all.size());
  for (const Category& text : o.categories) {
    c.texts.push_back(place_of(text.column));
    check(!is_text[c.texts.back()], "load_csv: .categories has the column '{}' twice", text.column);
    is_text[c.texts.back()] = true;
  }
  for (const std::string& name : o.columns) {
    c.places.push_back(place_of(name));
    check(!is_text[c.places.back()], "load_csv: the column '{}' is among .columns and .categories",
          name);
  }
  for (size_t i = 0; i < all.size() && o.columns.empty(); ++i)
    if (!is_text[i]) {
      c.names.push_back(all[i]);
      c.places.push_back(i);
    }
  return c;
}

// Numbers the distinct names of a text column.
class Codes {
 public:
  Codes(const Category& given, const CsvOptions& options)
      : category_(given), options_(options), fixed_(!given.names.empty()) {
    for (const std::string& name : category_.names)
      check(codes_.emplace(name, std::ssize(codes_)).second,
            "load_csv: .categories has the name '{}' of column '{}' twice", name, category_.column);
  }

  // Spaces in quotes belong to the name.
  void add(const Records& file, std::string_view field, bool quoted) {
    const std::string name(quoted ? field : trimmed(field));
    auto found = codes_.find(name);
    if (found == codes_.end()) {
      file.check_name(fmt::format("column '{}':", shown(category_.column)), name);
      if (name.empty() && !options_.empty_names)
        file.fail(
            fmt::format("column '{}': the name is missing; CsvOptions::empty_names allows this",
                        shown(category_.column)));
      if (fixed_) return rows_.push_back(code_of_unknown(file, name));
      found = codes_.emplace(name, std::ssize(codes_)).first;
    }
    rows_.push_back(found->second);
  }

  Category take() {
    if (!fixed_) sort_names();
    category_.codes = tensor(rows_, {std::ssize(rows_)});
    return std::move(category_);
  }

 private:
  int64_t code_of_unknown(const Records& file, const std::string& name) const {
    if (!options_.unknown)
      file.fail(
          fmt::format("column '{}': '{}' is not one of the {} names{}; CsvOptions::unknown can "
                      "set a code for it",
                      shown(category_.column), shown(name), category_.names.size(),
                      nearest_text(name, category_.names)));
    return *options_.unknown;
  }

  // Renumbers the codes, which follow first appearance, in the order of the names.
  void sort_names() {
    std::vector<int64_t> sorted(codes_.size());
    for (auto& [name, code] : codes_) {  // std::map iterates in the order of names
      sorted[static_cast<size_t>(code)] = std::ssize(category_.names);
      category_.names.push_back(name);
    }
    for (int64_t& row : rows_) row = sorted[static_cast<size_t>(row)];
  }

  Category category_;
  const CsvOptions& options_;
  bool fixed_;
  std::map<std::string, int64_t> codes_;
  std::vector<int64_t> rows_;
};

template <class T>
T number_of(const Records& file, const Columns& columns, size_t i,
            const std::vector<std::string>& fields, const CsvOptions& o) {
  T value{};
  const std::string& column = columns.names[i];
  const std::string_view field = trimmed(fields[columns.places[i]]);
  if (is_missing(field)) {
    if (o.missing) return static_cast<T>(*o.missing);
    file.fail(fmt::format(
        "column '{}': the number is missing; CsvOptions::missing can set a value for it",
        shown(column)));
  }
  std::string kept;
  if (parse(with_point(field, o.decimal, kept), value)) return value;
  std::string hint = detail::csv_hint(columns.first, fields, file.separator(), o.decimal);
  const bool letters = std::any_of(field.begin(), field.end(),
                                   [](unsigned char c) { return c >= 0x80 || std::isalpha(c); });
  if (hint.empty() && letters && std::isdigit(static_cast<unsigned char>(field[0])) == 0)
    hint = fmt::format(
        "; CsvOptions::categories = {{\"{}\"}} reads a column of text, .columns "
        "leaves it out",
        shown(column));
  file.fail(fmt::format(
      "column '{}': '{}' is not a {}{}", shown(column), shown(field),
      is_float(dtype_of<T>) ? "number" : fmt::format("number of type {}", dtype_of<T>), hint));
}

template <class T>
Table read_table(Records& file, const CsvOptions& o) {
  std::vector<std::string> fields;
  bool more = file.next(fields);
  if (!more) file.fail("the file is empty");
  std::vector<std::string> names = fields;
  for (size_t i = 0; i < names.size(); ++i)
    if (!o.header)
      names[i] = std::to_string(i);
    else if (!file.quoted(i))
      names[i] = trimmed(fields[i]);
  Columns columns = choose(file, names, o);
  columns.first = fields;
  if (o.header) more = file.next(fields);
  std::vector<Codes> codes;
  for (const Category& text : o.categories) codes.emplace_back(text, o);
  std::vector<T> values;
  int64_t rows = 0;
  for (; more; more = file.next(fields), ++rows) {
    if (fields.size() != columns.first.size())
      file.fail(fmt::format("{} fields, but the first line has {}{}", fields.size(),
                            columns.first.size(),
                            detail::csv_hint(columns.first, fields, file.separator(), o.decimal)));
    for (size_t i = 0; i < columns.places.size(); ++i)
      values.push_back(number_of<T>(file, columns, i, fields, o));
    for (size_t i = 0; i < codes.size(); ++i)
      codes[i].add(file, fields[columns.texts[i]], file.quoted(columns.texts[i]));
  }
  Table table{columns.names, tensor(values, {rows, std::ssize(columns.names)})};
  for (Codes& c : codes) table.categories.push_back(c.take());
  return table;
}

// The column that was meant, or the first columns.
std::string columns_text(const std::string& name, const std::vector<std::string>& all) {
  constexpr size_t kMost = 20;
  std::string text = nearest_text(name, all);
  if (!text.empty()) return text;
  for (const std::string& each : std::span(all).first(std::min(all.size(), kMost)))
    text += (text.empty() ? "; it has " : ", ") + shown(each);
  return text + (all.size() > kMost ? ", ..." : "");
}

}  // namespace

Tensor Table::column(const std::string& name) const {
  std::vector<std::string> all = names;
  for (const Category& text : categories) all.push_back(text.column);
  const auto count = std::ranges::count(all, name);
  check(count > 0, "Table: there is no column '{}'{}", shown(name), columns_text(name, all));
  check(count == 1, "Table: {} columns are called '{}'", count, shown(name));
  const auto at = std::ranges::find(all, name) - all.begin();
  const auto texts = at - std::ssize(names);
  return texts < 0 ? select(values, 1, at) : categories[static_cast<size_t>(texts)].codes;
}

Tensor Table::columns(const std::vector<std::string>& wanted) const {
  std::vector<Tensor> list;
  for (const std::string& name : wanted) list.push_back(column(name));
  return stack(list, 1);
}

namespace {

std::string quoted(const std::string& name, char separator) {
  // Without quotes, a name "sep=;" would be Excel's line about the separator.
  if (name.find_first_of(std::string("\"\r\n\t ") + separator) == name.npos && !name.empty() &&
      !name.starts_with("sep="))
    return name;
  std::string out = "\"";
  for (char c : name) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

}  // namespace

bool detail::is_csv_number(std::string_view field, char decimal) {
  double value = 0;
  std::string kept;
  field = trimmed(field);
  return is_missing(field) || parse(with_point(field, decimal, kept), value);
}

Table load_csv(const std::string& path, const CsvOptions& o) {
  check(o.separator != '"' && o.separator != '\n' && o.separator != '\r',
        "load_csv: a quote or the end of a line cannot separate fields");
  check(o.decimal == '.' || o.decimal == ',',
        "load_csv: the decimal point is '{}'; it must be '.' or ','", o.decimal);
  if (o.missing && !is_float(o.dtype))
    check(std::trunc(*o.missing) == *o.missing && std::abs(*o.missing) < 0x1p53 &&
              (o.dtype != DType::u8 || (*o.missing >= 0 && *o.missing < 256)),
          "load_csv: {} cannot stand for a missing {}", *o.missing, o.dtype);
  check(o.max_columns >= 1, "load_csv: max_columns is {}; at least 1", o.max_columns);
  check(!o.unknown || std::ranges::any_of(o.categories, [](auto& c) { return !c.names.empty(); }),
        "load_csv: .unknown is for .categories with names, such as those of a first table");
  check(!o.empty_names || !o.categories.empty(), "load_csv: .empty_names is for .categories");
  Records file(path, o);
  return dispatch(o.dtype, [&]<class T>() { return read_table<T>(file, o); });
}

void save_csv(const std::string& path, const Tensor& values, const SaveCsvOptions& o) {
  check(values.defined() && values.ndim() == 2, "save_csv: needs a (rows, columns) tensor");
  const int64_t rows = values.size(0), columns = values.size(1);
  check(o.names.empty() || std::ssize(o.names) == columns, "save_csv: {} names for {} columns",
        o.names.size(), columns);
  const char separator = separator_of(o.separator, path);
  check(std::string_view("0123456789+-.einfa\"\r\n").find(separator) == std::string_view::npos,
        "save_csv: the separator '{}' also stands in numbers, quotes or line ends; take a comma, a "
        "semicolon, a tab or a space",
        shown({&separator, 1}));
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
        text += fmt::format("{}", *p++);  // the shortest digits that read back the same
        text += c + 1 < columns ? separator : '\n';
      }
  });
  write_file_atomically(path, text);
}

}  // namespace tern::datasets
