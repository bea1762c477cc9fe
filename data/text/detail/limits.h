// Inside of data only: what the readers of vocabularies and tokenizers take.
#pragma once

#include <cstdint>

namespace tern::data::detail {

inline constexpr int64_t kMostTokens = 1 << 24;
inline constexpr int64_t kMostTokenBytes = 1 << 28;  ///< of a file of tokens
/// Ids without a token that a vocabulary may have, beside as many as it has tokens.
inline constexpr int64_t kMostHoles = 1 << 20;

}  // namespace tern::data::detail
