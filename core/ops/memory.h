// Helpers of ops that pass raw memory to kernels, or that build their result by in-place writes.
// Inside of core only.
#pragma once

#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {

/// The address of the element at index 0, 0, ..., for any dtype.
inline void* bytes(const Tensor& x) {
  return static_cast<char*>(x.ref()->storage->data()) + x.layout().offset * item_size(x.dtype());
}

/// Runs fill(out) without recording, so that it may write in place, and returns `out`.
template <class Fill>
Fresh filled(const Tensor& out, Fill&& fill) {
  NoGradGuard guard;
  fill(out);
  return Fresh::adopt(out);
}

}  // namespace tern
