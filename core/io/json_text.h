// JSON from outside. Inside of tern only: what it gives is nlohmann's.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

namespace tern {

struct JsonLimits {
  int64_t depth = 64;        ///< of lists and objects inside of each other
  int64_t values = 1 << 23;  ///< in all; each takes up to a hundred bytes of memory
};

/// The value of a text. Depth and number of values are counted before anything is built: trees are
/// copied, written and compared by functions that call themselves. Error with the byte: over a
/// limit. nlohmann::json::parse_error: no JSON.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits = {});

/// The whole number that a value from outside is. Error: it is of another kind, has a fraction or
/// does not fit. (nlohmann's own conversion cuts 1.5 off, wraps 2^63 and is undefined for 1e77.)
int64_t whole_number(const nlohmann::json& value);

/// Those of a list.
std::vector<int64_t> whole_numbers(const nlohmann::json& list);

/// That of a key; `otherwise` where it is missing or null.
int64_t whole_number_or(const nlohmann::json& object, const char* key, int64_t otherwise);

}  // namespace tern
