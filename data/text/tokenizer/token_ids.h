// Vocabularies in JSON: {"token": id, ...}. Inside of data only.
#pragma once

#include <string>
#include <vector>

#include "tern/core/io/json_value.h"

namespace tern::datasets::detail {

/// The tokens by id; "" for an unused one. Error with the place: an id is below 0, far above the
/// number of tokens, or given to two tokens.
std::vector<std::string> read_token_ids(const JsonValue& vocabulary);

}  // namespace tern::datasets::detail
