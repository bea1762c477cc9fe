// Reads a vocabulary's tokens by id. Bounds the ids, so that a small file cannot claim a large
// table.
#include "tern/data/text/tokenizer/token_ids.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/data/text/tokenizer/limits.h"

namespace tern::datasets::detail {

std::vector<std::string> read_token_ids(const JsonValue& vocabulary) {
  std::vector<std::string> tokens;
  const std::vector<JsonMember> members = vocabulary.members();
  const int64_t most = std::min(kMostTokens, 2 * std::ssize(members) + kMostHoles);
  for (const auto& [token, number] : members) {
    const auto id = static_cast<size_t>(number.integer(0, most - 1));
    if (id >= tokens.size()) tokens.resize(id + 1);
    if (!tokens[id].empty())
      number.fail(
          fmt::format("the tokens '{}' and '{}' have the same id, {}", tokens[id], token, id));
    tokens[id] = token;
  }
  return tokens;
}

}  // namespace tern::datasets::detail
