// Reads JSON from outside. Inside of tern only, since the values are nlohmann's.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

namespace tern {

struct JsonLimits {
  int64_t depth = 64;        ///< nesting of lists and objects
  int64_t values = 1 << 23;  ///< in total; each takes up to a hundred bytes of memory
};

/// Parses a text. Checks depth and number of values before building anything, since trees are
/// copied, written and compared recursively. Error with the byte position if a limit is exceeded.
/// nlohmann::json::parse_error if it is not JSON.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits = {});

/// A value from outside as an integer. Error if it is not a number, has a fraction or does not fit.
/// (nlohmann's own conversion truncates 1.5, wraps 2^63 and is undefined for 1e77.)
int64_t whole_number(const nlohmann::json& value);

/// The same for every element of a list.
std::vector<int64_t> whole_numbers(const nlohmann::json& list);

/// The same for the value of a key; `otherwise` if it is missing or null.
int64_t whole_number_or(const nlohmann::json& object, const char* key, int64_t otherwise);

}  // namespace tern
