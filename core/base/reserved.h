// Tells memory of a ShapeOnlyScope (shape_only.h) from real memory. Inside of core only.
#pragma once

namespace tern::detail {

/// Whether `p` is address space of a ShapeOnlyScope instead of real memory.
bool is_reserved(const void* p);

}  // namespace tern::detail
