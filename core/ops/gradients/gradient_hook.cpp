// The hook is an op: its forward pass is a view of x. Its backward pass calls the function and
// checks the result.
#include "tern/core/ops/gradients/gradient_hook.h"

#include <utility>

#include "tern/core/tape/record.h"

namespace tern {

Tensor on_gradient(const Tensor& x, std::function<Tensor(const Tensor&)> fn) {
  check_defined("on_gradient", x);
  check(fn != nullptr, "on_gradient: the function is empty; give one to call");
  Op op("on_gradient", x);
  return op.record(Fresh::view(x, x.layout()), [fn = std::move(fn)](const Tensor& dy) {
    const uint64_t version = dy.ref()->storage->version();
    const Tensor g = fn(dy);
    check(dy.ref()->storage->version() == version,
          "on_gradient: the function wrote to the gradient {}, which other code may also use; "
          "return a new tensor",
          dy.shape());
    if (!g.defined()) return dy;
    check(g.shape() == dy.shape() && g.dtype() == dy.dtype(),
          "on_gradient: the function returned {} {}, but the gradient is {} {}", g.dtype(),
          g.shape(), dy.dtype(), dy.shape());
    return g;
  });
}

}  // namespace tern
