// Inside core: the product that matmul, linear and their gradients are made of.
// Inside of core only.
#pragma once

#include "tern/core/kernels/gemm.h"
#include "tern/core/ops/saved_operand.h"

namespace tern {

/// a (..., M, K) times b (..., K, N), leading axes broadcast, then summed to the leading axes
/// `batch`, which may be left out or 1 where a and b have more: sum_to of a matmul without its
/// intermediate result. Its gradients are of the same form. `memory` lists the axes of the result
/// in the order in which they are to lie in memory, the innermost, one of the last two, last;
/// empty: row-major.
Tensor matmul_to(const Operand& a, const Operand& b, const Shape& batch, const Dims& memory = {});

/// c += a b (summed to c's leading axes), not recorded. The rows of c are without gaps.
void add_matmul(const Tensor& c, const Operand& a, const Operand& b);

/// The gradient a b of input number `input`, which has the layout `like`: added to what that input
/// has gathered so far where that may be (then it is undefined), else a new tensor in the memory
/// order of the input, so that the gradient of a transposed view becomes one without gaps of what
/// was transposed.
Tensor gradient_product(const Wants& wants, int input, const Operand& a, const Operand& b,
                        const Layout& like);

/// With the last two axes exchanged.
Tensor transposed(const Tensor& x);
Operand transposed(const Operand& x);

/// The sizes in front of the last two.
Shape batch_shape(const Shape& shape);

namespace detail {
/// x where BLAS can take its last two axes as they lie, else a copy; axes of stride 0 in front of
/// them come out with size 1. Not recorded.
Tensor for_blas(const Tensor& x);

/// The product of layouts, each of at least two axes, as gemm() wants it.
kernels::Gemm gemm_of(const Layout& a, const Layout& b, const Layout& c);
}  // namespace detail

}  // namespace tern
