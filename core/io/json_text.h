// Parses untrusted JSON. json_value.h reads the values. Inside of tern only, since the values are
// nlohmann's.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tern {

struct JsonLimits {
  int64_t depth = 64;        ///< nesting of lists and objects
  int64_t values = 1 << 23;  ///< in total; each takes up to a hundred bytes beside its text
};

/// Parses a text. Checks depth and number of values before building anything, since trees are
/// copied, written and compared recursively. An Error gives the byte position if a limit is
/// exceeded, line and column if the text is not JSON, and the name if a member occurs twice.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits = {});

/// The text of a file. IoError: it cannot be read, or has more than `most` bytes.
std::string read_json_text(const std::string& path, int64_t most);

namespace detail {

/// Line, column and fault of a text that is not JSON. `byte` (from 1 on) and `what` come from
/// nlohmann's parser.
std::string json_fault(std::string_view text, size_t byte, std::string_view what);

}  // namespace detail

}  // namespace tern
