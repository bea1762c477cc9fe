// Names as Python takes them, for patterns. Inside of core only.
#pragma once

#include <string_view>

namespace tern::detail {

/// Whether the UTF-8 text is a Python identifier: str.isidentifier(). Letters of any script, marks
/// and digits behind them, '_'.
bool is_identifier(std::string_view text);

}  // namespace tern::detail
