// where, masked_fill, tril and triu: all are `where` with a mask. Gradients pass to the chosen
// operand.
#include "tern/core/kernels/creation/create.h"
#include "tern/core/ops/elementwise.h"

namespace tern {
namespace {

using detail::map;
using detail::stored_scalar;
using detail::type_for;

void check_mask(const char* op, const Tensor& mask) {
  check(mask.dtype() == DType::u8, "{}: the mask must be u8, got {}; compare it, as in ne(mask, 0)",
        op, mask.dtype());
}

// A mask of the last two axes of x: 1 on a diagonal and below it (`lower`) or above it.
Tensor triangle(const char* op, const Tensor& x, int64_t diagonal, bool lower) {
  check(x.ndim() >= 2, "{}: needs at least 2 axes, the shape is {}", op, x.shape());
  Op scope("triangle");
  scope.note("diagonal", diagonal, "upper", !lower);
  Fresh mask({x.size(-2), x.size(-1)}, DType::u8);
  if (mask.numel() > 0)  // without columns there may be too many rows for a loop
    kernels::triangle(mask.data<uint8_t>(), x.size(-2), x.size(-1), diagonal, lower);
  return scope.not_differentiable(mask);
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  Op op("where", a, b);
  check_defined("where", condition, a, b);
  check_mask("where", condition);
  op.note("condition", condition);
  DType type = detail::promote("where", a.dtype(), b.dtype());
  Shape shape = broadcast_shapes("where", a.shape(), b.shape());
  Fresh y(broadcast_shapes("where", condition.shape(), shape), type);
  dispatch(type, [&]<class T>() {
    auto choose = [](uint8_t c, T u, T v) { return c != 0 ? u : v; };
    map<T, uint8_t, T, T>("where", y, choose, condition, a, b);
  });
  return op.record(y, [mask = save(condition)](const Tensor& dy, const Wants& wants) {
    Gradients g(2);
    if (wants[0]) g[0] = where(mask.get(), dy, 0);
    if (wants[1]) g[1] = where(mask.get(), 0, dy);
    return g;
  });
}

Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  check_defined("where", condition, a);
  return where(condition, a, stored_scalar("where", b, type_for(a, b)));
}

Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  check_defined("where", condition, b);
  return where(condition, stored_scalar("where", a, type_for(b, a)), b);
}

Tensor where(const Tensor& condition, Scalar a, Scalar b) {
  const DType type = a.is_integer && b.is_integer ? DType::i64 : DType::f32;
  return where(condition, stored_scalar("where", a, type), stored_scalar("where", b, type));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  check_defined("masked_fill", x, mask);
  check_mask("masked_fill", mask);
  return where(mask, stored_scalar("masked_fill", value, x.dtype()), x);
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  check_defined("tril", x);
  return where(triangle("tril", x, diagonal, true), x, 0);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  check_defined("triu", x);
  return where(triangle("triu", x, diagonal, false), x, 0);
}

}  // namespace tern
