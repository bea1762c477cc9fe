// Names of matrices in a batch, checks for infinities, and right sides of linear systems.
#include "tern/core/ops/linalg/linalg_call.h"

namespace tern::detail {

std::string place_of(int64_t matrix, const Shape& shape) {
  if (shape.size() == 2) return "the matrix";
  const Shape batch(shape.begin(), shape.end() - 2);
  return fmt::format("matrix {} of {}", position_of(matrix, batch), shape);
}

void check_none(const char* op, const Tensor& bad, const Shape& shape, const char* why) {
  if (bad.numel() == 0 || any(bad).item<int>() == 0) return;
  const int64_t matrices = numel(Shape(shape.begin(), shape.end() - 2));
  const int64_t matrix = argmax(bad).item<int64_t>() / (bad.numel() / matrices);
  fail(fmt::format("{}: {} {}", op, place_of(matrix, shape), why));
}

void check_finite_matrices(const char* op, const Tensor& a) {
  NoGradGuard guard;
  check_none(op, logical_not(isfinite(a.detach())), a.shape(),
             "has an element that is infinite or NaN");
}

RightSide::RightSide(const char* op, const Tensor& left, const Tensor& right, Vectors vectors) {
  const Matrices all(op, left);
  check_defined(op, left, right);
  check(left.dtype() == right.dtype(), "{}: mixes {} and {}; convert one of them with .to()", op,
        left.dtype(), right.dtype());
  vector =
      right.ndim() == 1 ||
      (vectors == Vectors::batch && right.ndim() == left.ndim() - 1 && right.size(-1) == all.m &&
       Shape(right.shape().begin(), right.shape().end() - 1) == all.batch);
  b = vector ? unsqueeze(right, -1) : right;
  check(b.ndim() >= 2 && b.size(-2) == all.m, "{}: the right side {} needs as many rows as {}", op,
        right.shape(), left.shape());
  const Shape batch =
      broadcast_shapes(op, all.batch, Shape(b.shape().begin(), b.shape().end() - 2));
  auto spread = [&](const Tensor& t) {
    Shape shape = batch;
    shape.push_back(t.size(-2));
    shape.push_back(t.size(-1));
    return shape == t.shape() ? t : expand(t, shape);
  };
  a = spread(left);
  b = spread(b);
}

}  // namespace tern::detail
