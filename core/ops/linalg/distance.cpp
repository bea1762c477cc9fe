// cdist: Euclidean distances as an op whose gradient is two matrix products; other norms by public
// ops when a gradient is recorded.
#include "tern/core/kernels/linalg/distance.h"

#include <cmath>

#include "tern/core/ops/linalg/linalg_call.h"

namespace tern {
namespace {

// d|a - b| / da = (a - b) / |a - b|, summed by matrix products; 0 for equal points. The points are
// moved to the origin first, since the products would cancel the digits of close points far away.
Gradients euclidean_gradients(const Tensor& dy, const Tensor& at, const Tensor& bt, const Tensor& y,
                              const Wants& wants) {
  const Tensor origin = at.size(-2) > 0 ? narrow(at, -2, 0, 1).detach() : Tensor();
  const Tensor a = origin.defined() ? at - origin : at, b = origin.defined() ? bt - origin : bt;
  const Tensor equal = eq(y, 0);
  const Tensor w = masked_fill(dy / masked_fill(y, equal, 1), equal, 0);
  Gradients g(2);
  if (wants[0]) g[0] = a * sum(w, -1, true) - detail::product(w, b);
  if (wants[1]) g[1] = b * unsqueeze(sum(w, -2), -1) - detail::product(transpose(w, -2, -1), a);
  return g;
}

// The distances of operands with the same batch. The recorded gradient is that of p = 2.
Tensor distances(const Tensor& a, const Tensor& b, double p) {
  Op op("cdist", a, b);
  const Tensor x = a.detach().contiguous(), z = b.detach().contiguous();
  const int64_t n = a.size(-2), m = b.size(-2);
  Shape shape = a.shape();
  shape[shape.size() - 1] = m;
  Fresh y(shape, a.dtype());
  if (y.numel() > 0)
    dispatch_float(a.dtype(), "cdist", [&]<class T>() {
      kernels::distances(p, x.data<T>(), z.data<T>(), y.data<T>(), y.numel() / (n * m), n, m,
                         a.size(-1));
    });
  return op.record(y,
                   [a = save(a), b = save(b), y = save(y)](const Tensor& dy, const Wants& wants) {
                     return euclidean_gradients(dy, a.get(), b.get(), y.get(), wants);
                   });
}

// For p = infinity every coordinate that equals the largest difference gets the whole gradient, as
// in PyTorch; norm() would share it.
Tensor norm_of_differences(const Tensor& a, const Tensor& b, double p) {
  const Tensor apart = unsqueeze(a, -2) - unsqueeze(b, -3);
  if (!std::isinf(p) || apart.size(-1) == 0) return norm(apart, p, -1);
  const Tensor size = abs(apart), value = size.detach(), most = amax(value, -1, true);
  return squeeze(most, -1) + sum(where(eq(value, most), size - value, 0), -1);
}

}  // namespace

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  check_defined("cdist", a, b);
  check(a.ndim() >= 2 && b.ndim() >= 2 && a.size(-1) == b.size(-1),
        "cdist: needs points (..., n, d) and (..., m, d), got {} and {}", a.shape(), b.shape());
  check(is_float(a.dtype()) && a.dtype() == b.dtype(),
        "cdist: needs floating tensors of one type, got {} and {}; convert with .to()", a.dtype(),
        b.dtype());
  check(p >= 0, "cdist: p is {}, less than 0", p);
  if (p != 2 && recording({a, b})) return norm_of_differences(a, b, p);
  Shape of_a(a.shape().begin(), a.shape().end() - 2), of_b(b.shape().begin(), b.shape().end() - 2);
  of_a = broadcast_shapes("cdist", of_a, of_b);
  of_b = of_a;
  for (int axis : {-2, -1}) {
    of_a.push_back(a.size(axis));
    of_b.push_back(b.size(axis));
  }
  return distances(expand(a, of_a), expand(b, of_b), p);
}

}  // namespace tern
