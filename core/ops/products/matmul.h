// The product behind matmul, linear and their gradients. Inside of core only.
#pragma once

#include "tern/core/kernels/products/gemm.h"
#include "tern/core/ops/products/saved_operand.h"

namespace tern {

/// a (..., M, K) times b (..., K, N) with leading axes broadcast, then summed to the leading axes
/// `batch`. Axes that are missing or of size 1 in `batch` are summed over. This is sum_to(matmul(a,
/// b)) without the intermediate result; its gradients have the same form. `memory` lists the
/// result's axes in memory order, innermost (one of the last two) last; empty means row-major.
Tensor matmul_to(const Operand& a, const Operand& b, const Shape& batch, const Dims& memory = {});

/// c += a b, summed to c's leading axes. Not recorded. The rows of c are contiguous.
void add_matmul(const Tensor& c, const Operand& a, const Operand& b);

/// The gradient a b of input `input`, whose layout is `like`. It is added to the input's
/// accumulated gradient if possible (then the result is undefined). Otherwise it is a new tensor in
/// the input's memory order, so that the gradient of a transposed view is contiguous for the
/// original.
Tensor gradient_product(const Wants& wants, int input, const Operand& a, const Operand& b,
                        const Layout& like);

/// Exchanges the last two axes.
Tensor transposed(const Tensor& x);
Operand transposed(const Operand& x);

/// The sizes before the last two.
Shape batch_shape(const Shape& shape);

namespace detail {
/// x if BLAS can take its last two axes as they are, else a copy. Leading axes of stride 0 become
/// axes of size 1. Not recorded.
Tensor for_blas(const Tensor& x);

/// The product of these layouts, each with at least two axes, in gemm()'s form.
kernels::Gemm gemm_of(const Layout& a, const Layout& b, const Layout& c);
}  // namespace detail

}  // namespace tern
