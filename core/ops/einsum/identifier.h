// Python's rule for identifiers, which names in patterns follow. Inside of core only.
#pragma once

#include <string_view>

namespace tern::detail {

/// Whether the UTF-8 text is a Python identifier (str.isidentifier()): '_' and letters of any
/// script, then also digits and marks.
bool is_identifier(std::string_view text);

}  // namespace tern::detail
