// Tables of numbers as text: comma or tab separated values (RFC 4180), plain or gzip. Files are not
// trusted: what is no number, is missing or has another number of fields is an IoError with the
// file, the line and the column.
//
//   data::Table houses = data::load_csv("houses.csv", {.columns = {"area", "rooms", "price"}});
//   Tensor area = select(houses.values, 1, 0);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::data {

struct CsvOptions {
  /// 0: a tab where the name ends in .tsv or .tsv.gz, else a comma.
  char separator = 0;
  bool header = true;                     ///< the first line has the names of the columns
  std::vector<std::string> columns = {};  ///< which to read, in this order; none: all
  DType dtype = DType::f32;               ///< any; integers must be written as such
  std::optional<double> missing = {};     ///< what stands for a missing number; none: an error
  int64_t max_bytes = int64_t{1} << 34;   ///< of text, unpacked
};

struct Table {
  std::vector<std::string> names;  ///< of the columns; "0", "1", ... without a header
  Tensor values;                   ///< (rows, columns)
};

/// Fields may stand in double quotes, where "" is one of them and separators and line ends are
/// ordinary; spaces around numbers are left out; lines end with \n or \r\n; empty lines and a byte
/// order mark are passed over. Missing are the empty field, NA, N/A, NaN, null and None, in any
/// case of letters. inf is a number.
Table load_csv(const std::string& path, const CsvOptions& options = {});

struct SaveCsvOptions {
  char separator = 0;                   ///< as in CsvOptions
  std::vector<std::string> names = {};  ///< of the columns; none: no header
};
/// A (rows, columns) tensor, whole or not at all; numbers are written so that they are read back
/// the same.
void save_csv(const std::string& path, const Tensor& values, const SaveCsvOptions& options = {});

}  // namespace tern::data
