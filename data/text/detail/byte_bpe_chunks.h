// Inside of data only: how byte_bpe.h cuts text, and how it spells bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data::detail {

/// The chunks of the text by GPT-2's pattern (see byte_bpe.h), which put together are the text. A
/// byte that is no UTF-8 counts as a mark.
std::vector<std::string_view> byte_bpe_chunks(std::string_view text);

/// The chunks by the pattern of Llama 3 and its like (GPT-4's with digits in threes, or Qwen's with
/// each by itself):
///   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
///   \s*[\r\n]+|\s+(?!\S)|\s+
std::vector<std::string_view> line_bpe_chunks(std::string_view text, int most_digits);

/// White space as regular expressions see it: the property White_Space.
bool is_white_space(char32_t c);

/// The bytes in the order of the characters that they are spelt as: first the 188 that can be seen
/// in Latin-1 and stand for themselves, then the others, as U+0100 and so on.
const std::array<uint8_t, 256>& byte_order();

/// The bytes as characters, and back (nothing where a character stands for no byte).
std::string spelt(std::string_view bytes);
std::optional<std::string> unspelt(std::string_view characters);

}  // namespace tern::data::detail
