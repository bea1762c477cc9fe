// Inside of data only: how WordPiece spells its special pieces, and those inside of words.
#pragma once

#include <array>
#include <string_view>

namespace tern::data::detail {

/// Padding, unknown, begin, separator, mask.
inline constexpr std::array<std::string_view, 5> kSpecialPieces = {"[PAD]", "[UNK]", "[CLS]",
                                                                   "[SEP]", "[MASK]"};
inline constexpr std::string_view kContinued = "##";

}  // namespace tern::data::detail
