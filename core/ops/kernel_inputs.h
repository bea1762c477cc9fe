// Converts the tensors of an op into the addresses, layouts and loops that kernels take.
#pragma once

#include <array>
#include <span>

#include "tern/core/kernels/elementwise/elementwise.h"
#include "tern/core/kernels/elementwise/elementwise_many.h"
#include "tern/core/kernels/loops.h"
#include "tern/core/tape/record.h"
#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// The address of a tensor's element 0, and its type.
kernels::Input input_of(const Tensor& x);

/// The address of a result's element 0.
void* address_of(const Fresh& out);

/// The loops over `out` and the inputs, which broadcast to its shape.
kernels::Loops plan(const char* op, const Layout& out, std::span<const Tensor> in);

/// A tensor broadcast to `shape`.
kernels::ManyInput many_input(const char* op, const Shape& shape, const Tensor& x);

template <size_t kInputs>
std::array<kernels::ManyInput, kInputs> many_inputs(const char* op, const Shape& shape,
                                                    const std::array<Tensor, kInputs>& x) {
  std::array<kernels::ManyInput, kInputs> in;
  for (size_t k = 0; k < kInputs; ++k) in[k] = many_input(op, shape, x[k]);
  return in;
}

}  // namespace tern::detail
