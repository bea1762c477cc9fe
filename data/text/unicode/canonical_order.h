// Orders long runs of accents, for which utf8proc takes quadratic time. Inside of data only.
#pragma once

#include <string>
#include <string_view>

namespace tern::datasets::detail {

/// The text with each long run of combining characters sorted by class, keeping the order of equals
/// (https://unicode.org/reports/tr15, canonical ordering), as normalisation does anyway. REQUIRES:
/// valid UTF-8.
std::string canonical_order(std::string_view text);

}  // namespace tern::datasets::detail
