// The quantised types of GGUF files. Inside of core only.
#pragma once

#include <string_view>

#include "tern/core/io/element_types.h"

namespace tern::detail {

/// A quantised type ("Q4_K") that converts to f32; null if there is none of this name.
const ElementType* find_block_type(std::string_view name);

}  // namespace tern::detail
