// Tables of numbers as text: comma or tab separated values (RFC 4180), plain or gzip. Files are not
// trusted: an invalid or missing number, or a wrong number of fields, is an IoError with file, line
// and column.
//
//   datasets::Table houses = datasets::load_csv("houses.csv", {.columns = {"area", "rooms", "price"}});
//   Tensor area = select(houses.values, 1, 0);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::datasets {

struct CsvOptions {
  /// 0: a tab if the name ends in .tsv or .tsv.gz, else a comma.
  char separator = 0;
  bool header = true;                     ///< the first line has the column names
  std::vector<std::string> columns = {};  ///< columns to read, in this order; none: all
  DType dtype = DType::f32;               ///< any; integers must be written as such
  std::optional<double> missing = {};     ///< replaces missing numbers; none: an error
  int64_t max_bytes = int64_t{1} << 34;   ///< limit of the unpacked text
  int64_t max_columns = 100'000;          ///< a name takes a few hundred bytes of memory
};

struct Table {
  std::vector<std::string> names;  ///< column names; "0", "1", ... without a header
  Tensor values;                   ///< (rows, columns)
};

/// Fields may be in double quotes. Inside them "" is a quote, and separators and line ends are
/// ordinary. Spaces around numbers, empty lines and a byte order mark are skipped. Lines end with
/// LF or CRLF. Empty fields, NA, N/A, NaN, null and None, in any letter case, are missing numbers.
/// inf is a number.
Table load_csv(const std::string& path, const CsvOptions& options = {});

struct SaveCsvOptions {
  char separator = 0;                   ///< as in CsvOptions
  std::vector<std::string> names = {};  ///< column names; none: no header
};
/// Writes a (rows, columns) tensor, completely or not at all, in digits that read back the same.
void save_csv(const std::string& path, const Tensor& values, const SaveCsvOptions& options = {});

}  // namespace tern::datasets
