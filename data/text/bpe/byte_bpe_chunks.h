// How byte_bpe.h cuts text and writes bytes. Inside of data only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern::datasets::detail {

/// The chunks of the text by GPT-2's pattern (see byte_bpe.h); joined they give the text. A byte
/// that is not valid UTF-8 counts as a mark.
std::vector<std::string_view> byte_bpe_chunks(std::string_view text);

/// The chunks by the pattern of Llama 3 and similar models (GPT-4's, with digits in groups of
/// three; Qwen's, with single digits):
///   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
///   \s*[\r\n]+|\s+(?!\S)|\s+
std::vector<std::string_view> line_bpe_chunks(std::string_view text, int most_digits);

/// White space as in regular expressions: the property White_Space.
bool is_white_space(char32_t c);

/// The bytes in the order of the characters that represent them: first the 188 visible Latin-1
/// characters, which represent themselves, then the others as U+0100 and following.
const std::array<uint8_t, 256>& byte_order();

/// Converts bytes to these characters, and back (nothing if a character represents no byte).
std::string spelt(std::string_view bytes);
std::optional<std::string> unspelt(std::string_view characters);

}  // namespace tern::datasets::detail
