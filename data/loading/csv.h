// Tables as text: values separated by commas (RFC 4180), tabs, semicolons or spaces, plain or gzip,
// in UTF-8 or in UTF-16 with its mark. Columns are numbers, or text such as a class or a town.
// Files are not trusted: an invalid or missing number, a name that is not UTF-8, or a wrong number
// of fields is an IoError with file, line and column, which names the option that would read it.
//
// Memory: numbers take at most one element per byte of the text (",,," with `missing` set), and
// three times that while the table grows. A new name in a column of text takes about 130 bytes. A
// gzip file unpacks to at most 16 MiB or 100 times its size.
//
//   datasets::Table houses =
//       datasets::load_csv("houses.csv", {.columns = {"area", "rooms", "price"}});
//   Tensor area = houses.column("area");
//
// A column of text becomes codes, in the order of its names. The names of a first table give a
// second one the same codes:
//
//   datasets::Table train = datasets::load_csv("train.csv", {.categories = {"species"}});
//   datasets::Table test = datasets::load_csv("test.csv", {.categories = train.categories});
//   Tensor target = train.column("species");  // categories[0].names[target[i]]: that of row i
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::datasets {

/// A column of text.
struct Category {
  Category(std::string column_name, std::vector<std::string> known = {})  // NOLINT: a conversion
      : column(std::move(column_name)), names(std::move(known)) {}
  Category(const char* column_name) : column(column_name) {}  // NOLINT: a conversion

  std::string column;
  std::vector<std::string> names;  ///< code i stands for names[i]
  Tensor codes = {};               ///< i64 (rows); set in a table that was read
};

struct CsvOptions {
  /// ' ': fields stand between any number of spaces and tabs, as in numpy.loadtxt. 0: the
  /// separator of a first line "sep=;", as Excel writes it; else a tab if the file's name ends in
  /// .tsv or .tsv.gz, else a semicolon if the decimal point is a comma, else a comma.
  char separator = 0;
  char decimal = '.';                     ///< the decimal point, '.' or ','
  bool header = true;                     ///< the first line has the column names
  std::vector<std::string> columns = {};  ///< number columns, in order; empty: all others
  /// Columns of text. Without names, collects the column's names and sorts them by their bytes.
  std::vector<Category> categories = {};
  /// Whether empty fields of these columns have the name "". Without, they are IoErrors, unless the
  /// names of the Category have "".
  bool empty_names = false;
  /// The code of a name that a Category with names lacks, such as -1; none: an IoError. Error if no
  /// Category has names, and for empty_names if there is no Category.
  std::optional<int64_t> unknown = {};
  DType dtype = DType::f32;              ///< type of numbers; integer types accept only integers
  std::optional<double> missing = {};    ///< replaces missing numbers; none: an error
  int64_t max_bytes = int64_t{1} << 34;  ///< limit of the unpacked text
  int64_t max_columns = 100'000;         ///< a name takes a few hundred bytes of memory
};

struct Table {
  std::vector<std::string> names;  ///< column names of `values`; "0", "1", ... without a header
  Tensor values;                   ///< (rows, columns), without the columns of text
  std::vector<Category> categories = {};  ///< CsvOptions::categories, with their codes

  /// A column by its name: numbers, a view of `values`, or the codes of a text; (rows). Error if
  /// there is none, or several.
  Tensor column(const std::string& name) const;
  /// Several columns of numbers, one after the other: (rows, names.size()).
  Tensor columns(const std::vector<std::string>& names) const;
};

/// Fields may be in double quotes. Inside them "" is a quote, and separators and line ends are
/// ordinary. Spaces around numbers and around names that are not in quotes, empty lines and a byte
/// order mark are skipped. Lines end with LF, CRLF or CR. Empty fields, NA, N/A, NaN (with or
/// without a sign), null and None, in any letter case, are missing numbers. inf is a number, and so
/// is one that is too large for the type.
Table load_csv(const std::string& path, const CsvOptions& options = {});

struct SaveCsvOptions {
  char separator = 0;                   ///< as in CsvOptions
  std::vector<std::string> names = {};  ///< column names; none: no header
};
/// Writes a (rows, columns) tensor, completely or not at all, in digits that read back the same.
/// Error if the separator may stand in a number, as a point, a minus or an e.
void save_csv(const std::string& path, const Tensor& values, const SaveCsvOptions& options = {});

}  // namespace tern::datasets
