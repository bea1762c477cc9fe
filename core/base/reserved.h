// Whether memory is that of a ShapeOnlyScope (shape_only.h). Inside of core only.
#pragma once

namespace tern::detail {

/// Whether `p` is address space that nobody computes into, rather than memory.
bool is_reserved(const void* p);

}  // namespace tern::detail
