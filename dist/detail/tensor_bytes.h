// The elements of a contiguous tensor as bytes, to send or to receive into. Inside of dist only.
#pragma once

#include <cstddef>
#include <span>

#include "tern/core/base/error.h"
#include "tern/core/tensor/tensor.h"

namespace tern::dist::detail {

inline std::span<const std::byte> bytes_of(const Tensor& t) {
  return dispatch(t.dtype(), [&]<class T>() { return std::as_bytes(t.span<T>()); });
}

inline std::span<std::byte> bytes_to(const Tensor& t) {
  return dispatch(t.dtype(),
                  [&]<class T>() { return std::as_writable_bytes(t.mutable_span<T>()); });
}

}  // namespace tern::dist::detail
