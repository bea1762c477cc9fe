// A program's own fused op: a parallel, vectorised kernel and its gradient beside it. The second
// derivative comes from the same function written in public ops.
#include <tern/core/base/simd.h>
#include <tern/core/ops/composed.h>
#include <tern/tern.h>

#include <cmath>

using namespace tern;

/// y = x / (|x|_2 + eps) along the last axis; also n = |x|_2 + eps, one per row.
void unit_rows(const float* x, float* y, float* n, int64_t rows, int64_t size) {
  parallel_for(rows, 64, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* in = x + r * size;
      float* out = y + r * size;
      n[r] = simd([=] {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < size; ++i) sum += in[i] * in[i];
        const float norm = std::sqrt(sum) + 1e-6f;
        for (int64_t i = 0; i < size; ++i) out[i] = in[i] / norm;
        return norm;
      });
    }
  });
}

Tensor composed_unit(const Tensor& x) { return x / (norm(x, 2, -1, true) + 1e-6); }

Tensor unit(const Tensor& x) {
  Op op("unit", x);
  check(x.ndim() > 0 && x.dtype() == DType::f32, "unit: needs f32 rows, got {} {}", x.dtype(),
        x.shape());
  Tensor c = x.contiguous();
  const int64_t size = c.size(-1), rows = c.numel() / std::max<int64_t>(size, 1);
  Shape of_norms = c.shape();
  of_norms[of_norms.size() - 1] = 1;
  Fresh y(c.shape(), c.dtype()), n(of_norms, c.dtype());
  unit_rows(c.data<float>(), y.data<float>(), n.data<float>(), rows, size);
  auto vjp = [x = save(c), y = save(y), n = not_differentiable(n)](const Tensor& dy) -> Gradients {
    auto composed = [](const std::vector<Tensor>& in) { return composed_unit(in[0]); };
    if (grad_enabled()) return composed_gradients(composed, {x.get()}, dy);
    // dx = (dy - y sum(dy y)) / n
    Tensor u = y.get();
    return {(dy - u * sum(dy * u, -1, true)) / n};
  };
  return op.record(y, {c}, vjp);
}

int main() {
  Rng rng(0);
  Tensor x = randn({7, 33}, rng).set_requires_grad(), w = randn({7, 33}, rng);
  auto gradient = [&](auto f) { return grad({sum(f(x) * w)}, {x})[0]; };
  check(all_close(unit(x), composed_unit(x), 1e-5, 1e-6), "unit: not what its definition gives");
  check(all_close(gradient(unit), gradient(composed_unit), 1e-4, 1e-5), "unit: a wrong gradient");
  Tensor slope = grad({sum(unit(x) * w)}, {x}, {.create_graph = true})[0];
  check(grad({sum(square(slope))}, {x})[0].numel() == x.numel(), "unit: no second derivative");
  Profile profile;
  backward(sum(unit(x)));
  check(profile.table().find("unit backward") != std::string::npos, "unit: not in the profile");
}
