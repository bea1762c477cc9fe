// Matrix products with broadcast leading axes, through the GEMM kernel. Each gradient is another
// product, summed to the leading axes of its input and stored in that input's memory order.
#include "tern/core/ops/products/matmul.h"

#include <algorithm>
#include <cstdlib>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern {
namespace detail {

Operand for_blas(const Operand& x) {
  Layout l = x.layout();
  int rows = l.ndim() - 2, cols = l.ndim() - 1;
  for (int i = 0; i < rows; ++i)
    if (l.strides[i] == 0 && l.shape[i] > 1) l.shape[i] = 1;
  bool fits = kernels::blas_takes(l.shape[rows], l.shape[cols], {l.strides[rows], l.strides[cols]});
  fits = fits || l.numel() == 0;
  if (x.rounded() && fits) return x.seen(l);
  Tensor once = not_differentiable(Fresh::view(x.rounded() ? x.widened() : x.tensor(), l));
  return fits ? once : clone(once);
}

Tensor for_blas(const Tensor& x) { return for_blas(Operand(x)).tensor(); }

kernels::Gemm gemm_of(const Layout& a, const Layout& b, const Layout& c) {
  auto strides = [](const Layout& l) {
    return kernels::MatrixStrides{l.strides[l.ndim() - 2], l.strides[l.ndim() - 1]};
  };
  kernels::Gemm g;
  g.m = a.shape[a.ndim() - 2];
  g.k = a.shape[a.ndim() - 1];
  g.n = b.shape[b.ndim() - 1];
  g.a = strides(a);
  g.b = strides(b);
  g.c = strides(c);
  int axes = std::max({a.ndim(), b.ndim(), c.ndim()});
  for (int i = 0; i < axes - 2; ++i) {
    int64_t size = 1;
    auto stride = [&](const Layout& l) {
      int axis = i - (axes - l.ndim());
      if (axis < 0 || l.shape[axis] == 1) return int64_t{0};
      size = l.shape[axis];
      return l.strides[axis];
    };
    int64_t sa = stride(a), sb = stride(b), sc = stride(c);
    g.batch.add(size, sa, sb, sc);
  }
  return g;
}

}  // namespace detail

namespace {

void run(const Operand& a, const Operand& b, const Layout& c, DType dtype, void* out, double beta) {
  const Operand x = detail::for_blas(a), y = detail::for_blas(b);
  kernels::Gemm g = detail::gemm_of(x.layout(), y.layout(), c);
  auto go = [&]<class T>() {
    kernels::gemm(g, x.elements<T>(), y.elements<T>(), static_cast<T*>(out), static_cast<T>(beta));
  };
  if (dtype == DType::i64)
    go.template operator()<int64_t>();
  else
    dispatch_float(dtype, "matmul", go);
}

/// How often c contains the same product: the sizes of axes that c lacks and along which a and b
/// are both constant. for_blas() reduces these axes to size 1, so the kernel does not see them.
int64_t repeats(const Layout& a, const Layout& b, const Layout& c) {
  int64_t times = 1;
  const int axes = std::max(a.ndim(), b.ndim());
  for (int i = 0; i < axes - 2; ++i) {
    auto axis = [&](const Layout& l) { return i - (axes - l.ndim()); };
    auto has = [&](const Layout& l) { return axis(l) >= 0 && l.shape[axis(l)] != 1; };
    auto moves = [&](const Layout& l) { return has(l) && l.strides[axis(l)] != 0; };
    const int64_t size = has(a) ? a.shape[axis(a)] : has(b) ? b.shape[axis(b)] : 1;
    if (size > 1 && !has(c) && !moves(a) && !moves(b)) times *= size;
  }
  return times;
}

Shape with_matrix(Shape batch, int64_t rows, int64_t cols) {
  batch.push_back(rows);
  batch.push_back(cols);
  return batch;
}

/// A result of this shape, with its axes stored in the given memory order.
Fresh fresh_in_order(const Shape& shape, const Dims& memory, DType dtype) {
  if (memory.empty()) return Fresh(shape, dtype);
  Shape ordered;
  for (int64_t axis : memory) ordered.push_back(shape[static_cast<int>(axis)]);
  Layout l{shape, Dims::filled(shape.size(), 0)};
  const Strides strides = contiguous_strides(ordered);
  for (int i = 0; i < memory.size(); ++i) l.strides[static_cast<int>(memory[i])] = strides[i];
  return Fresh::view(not_differentiable(Fresh(ordered, dtype)), l);
}

/// The memory order of the axes of `like`, or nothing unless the innermost is one of the last two.
Dims memory_order(const Layout& like) {
  auto reach = [&](int64_t axis) {
    const int i = static_cast<int>(axis);
    const int64_t stride = std::abs(like.strides[i]);
    return like.shape[i] == 1 || stride == 0 ? INT64_MAX : stride;
  };
  Dims order;
  for (int i = 0; i < like.ndim(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t x, int64_t y) { return reach(x) > reach(y); });
  return order.back() >= like.ndim() - 2 ? order : Dims();
}

}  // namespace

Tensor transposed(const Tensor& x) { return transpose(x, -1, -2); }

Operand transposed(const Operand& x) {
  if (!x.rounded()) return transposed(x.tensor());
  Layout l = x.layout();
  const int rows = l.ndim() - 2, cols = l.ndim() - 1;
  std::swap(l.shape[rows], l.shape[cols]);
  std::swap(l.strides[rows], l.strides[cols]);
  return x.seen(l);
}

Tensor gradient_product(const Wants& wants, int input, const Operand& a, const Operand& b,
                        const Layout& like) {
  if (Tensor sum = wants.accumulator(input); sum.defined()) {
    add_matmul(sum, a, b);
    return {};
  }
  return matmul_to(a, b, batch_shape(like.shape), memory_order(like));
}

Shape batch_shape(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

void add_matmul(const Tensor& c, const Operand& a, const Operand& b) {
  Op op("matmul", a.tensor(), b.tensor());
  if (repeats(a.layout(), b.layout(), c.layout()) > 1) {
    NoGradGuard guard;
    return add_(c, matmul_to(a, b, batch_shape(c.shape())));
  }
  dispatch_float(c.dtype(), "matmul",
                 [&]<class T>() { run(a, b, c.layout(), c.dtype(), c.mutable_data<T>(), 1); });
}

// c = sum_batch a b: da = dy b^T, db = a^T dy, each summed to the leading axes of its input.
Tensor matmul_to(const Operand& a, const Operand& b, const Shape& batch, const Dims& memory) {
  Op op("matmul", a.tensor(), b.tensor());
  const Layout &la = a.layout(), &lb = b.layout();
  const Shape shape = with_matrix(batch, la.shape[la.ndim() - 2], lb.shape[lb.ndim() - 1]);
  Fresh c = fresh_in_order(shape, memory, a.dtype());
  void* out = dispatch(c.dtype(), [&]<class T>() -> void* { return c.data<T>(); });
  run(a, b, c.layout(), c.dtype(), out, 0);
  // Computes the product once and scales it. The repeated axes cost nothing and round each element
  // once, so the bits do not depend on an order of summation.
  if (int64_t times = repeats(la, lb, c.layout()); times > 1) {
    NoGradGuard guard;
    mul_(not_differentiable(c), times);
  }
  // Keeps the elements that a wanted gradient reads, and the layouts of both operands.
  Tensor none;
  const Tensor &x = a.tensor(), &y = b.tensor();  // undefined if rounded; these are not recorded
  auto vjp = [x = save_operand(y.requires_grad() ? x : none),
              y = save_operand(x.requires_grad() ? y : none), la,
              lb](const Tensor& dy, const Wants& wants) {
    Gradients g(2);
    if (wants[0]) g[0] = gradient_product(wants, 0, dy, transposed(y.operand()), la);
    if (wants[1]) g[1] = gradient_product(wants, 1, transposed(x.operand()), dy, lb);
    return g;
  };
  return op.record(c, std::move(vjp));
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Op op("matmul", a, b);
  check_defined("matmul", a, b);
  check(a.ndim() > 0 && b.ndim() > 0, "matmul: needs at least one axis each, got {} x {}; use mul",
        a.shape(), b.shape());
  check(a.dtype() == b.dtype(), "matmul: types differ: {} x {}; convert one with .to()", a.dtype(),
        b.dtype());
  check(a.dtype() != DType::u8, "matmul: u8 is not supported; convert with .to(DType::i64)");
  int64_t k = a.size(-1), rows = b.size(b.ndim() == 1 ? 0 : -2);
  bool hint = b.ndim() >= 2 && b.size(-1) == k;
  check(k == rows, "matmul: inner sizes differ: {} x {}{}", a.shape(), b.shape(),
        !hint ? ""
              : fmt::format("; did you mean matmul(a, transpose(b, {}, {}))?", b.ndim() - 2,
                            b.ndim() - 1));
  Tensor x = a.ndim() == 1 ? unsqueeze(a, 0) : a, y = b.ndim() == 1 ? unsqueeze(b, 1) : b;
  Shape batch = broadcast_shapes("matmul", batch_shape(x.shape()), batch_shape(y.shape()));
  Tensor c = matmul_to(x, y, batch);
  if (a.ndim() == 1) c = squeeze(c, -2);
  return b.ndim() == 1 ? squeeze(c, -1) : c;
}

}  // namespace tern
