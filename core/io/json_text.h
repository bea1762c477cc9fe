// JSON from outside. Inside of tern only: what it gives is nlohmann's.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tern {

struct JsonLimits {
  int64_t depth = 64;        ///< of lists and objects inside of each other
  int64_t values = 1 << 23;  ///< in all; each takes up to a hundred bytes of memory
};

/// The value of a text. Depth and number of values are counted before anything is built: trees are
/// copied, written and compared by functions that call themselves. Error with the byte: over a
/// limit. nlohmann::json::parse_error: no JSON.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace tern
