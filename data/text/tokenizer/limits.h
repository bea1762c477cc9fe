// Limits for readers of vocabularies and tokenizers. Inside of data only.
#pragma once

#include <cstdint>

namespace tern::datasets::detail {

inline constexpr int64_t kMostTokens = 1 << 24;
inline constexpr int64_t kMostTokenBytes = 1 << 28;  ///< size of a file of tokens
/// A vocabulary of n tokens may have n + kMostHoles unused ids.
inline constexpr int64_t kMostHoles = 1 << 20;
/// Limit of a text that is normalised or decoded, in bytes. Each part of a tokenizer may make it
/// any number of times longer.
inline constexpr int64_t kMostNormalBytes = 1 << 28;

/// Limit of a word that WordPiece cuts, in characters; the time grows with their third power.
inline constexpr int64_t kMostWordCharacters = 1000;

}  // namespace tern::datasets::detail
