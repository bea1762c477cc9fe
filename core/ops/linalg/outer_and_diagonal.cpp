// outer, trace and diag_embed, for every dtype: a product of views, a sum of a diagonal view, and a
// copy into one.
#include "tern/core/ops/linalg/linalg_call.h"
#include "tern/core/ops/memory.h"

namespace tern {

Tensor outer(const Tensor& a, const Tensor& b) {
  check_defined("outer", a, b);
  check(a.ndim() == 1 && b.ndim() == 1, "outer: needs vectors, got {} and {}", a.shape(),
        b.shape());
  return unsqueeze(a, 1) * b;
}

Tensor trace(const Tensor& x) {
  check_defined("trace", x);
  check(x.ndim() == 2, "trace: needs a matrix, got {}", x.shape());
  return sum(diagonal(x));
}

Tensor diag_embed(const Tensor& x, int64_t offset, int64_t a, int64_t b) {
  Op op("diag_embed", x);
  check_defined("diag_embed", x);
  check(x.ndim() >= 1, "diag_embed: needs at least one axis, the shape is {}", x.shape());
  const int i = normalize_axis("diag_embed", a, x.ndim() + 1);
  const int j = normalize_axis("diag_embed", b, x.ndim() + 1);
  check(i != j, "diag_embed: needs two different axes, got {} twice", i);
  const int64_t n = checked_sum("diag_embed", x.size(-1), offset < 0 ? -offset : offset);
  Shape shape(x.shape().begin(), x.shape().end() - 1);
  shape.insert(std::min(i, j), n);
  shape.insert(std::max(i, j), n);
  Fresh y = filled(zeros(shape, x.dtype()),
                   [&](const Tensor& whole) { copy_(diagonal(whole, offset, i, j), x.detach()); });
  return op.record(y, [=](const Tensor& dy) { return diagonal(dy, offset, i, j); });
}

}  // namespace tern
