// How kernels see the tensors of an op.
#pragma once

#include <functional>
#include <initializer_list>

#include "tern/core/base/loops.h"
#include "tern/core/kernels/elementwise.h"
#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// Where element 0 of a tensor lies, and its type.
kernels::Input input_of(const Tensor& x);

/// The loops over `out` and the inputs, broadcast to its shape.
Loops plan(const char* op, const Layout& out,
           std::initializer_list<std::reference_wrapper<const Tensor>> in);

}  // namespace tern::detail
