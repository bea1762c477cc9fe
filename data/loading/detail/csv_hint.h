// Suggests options that can read a table, for errors. Inside of data only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::datasets::detail {

/// Whether a field is a number with this decimal point, or stands for a missing one.
bool is_csv_number(std::string_view field, char decimal);

/// Returns "; CsvOptions::separator = ';' would read 3 columns here" for a line that was cut into
/// `fields`, given the file's first line. Empty if no other separator or decimal point fits better.
std::string csv_hint(const std::vector<std::string>& first, const std::vector<std::string>& fields,
                     char separator, char decimal);
/// The same for a column name that the first line lacks.
std::string csv_name_hint(const std::vector<std::string>& first, const std::string& name,
                          char separator);

}  // namespace tern::datasets::detail
