// Inside of data only: long runs of accents, whose order costs utf8proc the square of their length.
#pragma once

#include <string>
#include <string_view>

namespace tern::data::detail {

/// The text with each long run of combining characters sorted by their classes, equal ones as they
/// were (https://unicode.org/reports/tr15, the canonical ordering): what normalising does anyway.
/// REQUIRES: valid UTF-8.
std::string canonical_order(std::string_view text);

}  // namespace tern::data::detail
