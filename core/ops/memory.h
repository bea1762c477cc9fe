// For ops that hand raw memory to kernels, or put their result together by in-place writes.
// Inside of core only.
#pragma once

#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {

/// Where the element at index 0, 0, ... lies, whatever its type.
inline void* bytes(const Tensor& x) {
  return static_cast<char*>(x.ref()->storage->data()) + x.layout().offset * item_size(x.dtype());
}

/// `out` after fill(out), which runs unrecorded and may write in place.
template <class Fill>
Fresh filled(const Tensor& out, Fill&& fill) {
  NoGradGuard guard;
  fill(out);
  return Fresh::adopt(out);
}

}  // namespace tern
