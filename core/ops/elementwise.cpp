// The parts of elementwise ops that are no templates: type promotion, numbers as tensors, and the
// call of a compiled kernel.
#include "tern/core/ops/elementwise.h"

#include <cstring>

#include "tern/core/ops/creation/write.h"

namespace tern::detail {

DType promote(const char* op, DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) && is_float(b))
    fail(
        fmt::format("{}: mixes f32 and f64; convert one of them with .to(DType::f32) or "
                    ".to(DType::f64)",
                    op));
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  return DType::i64;
}

namespace {

Tensor single(const std::array<char, 8>& bytes, DType type) {
  Fresh y({}, type);
  std::memcpy(y.ref()->storage->data(), bytes.data(), static_cast<size_t>(item_size(type)));
  return not_differentiable(y);
}

}  // namespace

Tensor scalar_for(const Tensor& other, Scalar s) {
  if (!other.defined()) return scalar(s);  // the op reports the undefined tensor
  const DType type = type_for(other, s);
  return single(wrapped_element(s, type), type);
}

Tensor exact_scalar_for(const Tensor& other, Scalar s) {
  if (!other.defined()) return scalar(s);
  const bool wraps =
      other.dtype() == DType::u8 && s.is_integer && s.integer != static_cast<uint8_t>(s.integer);
  return wraps ? scalar(s, DType::i64) : scalar_for(other, s);
}

Tensor stored_scalar(const char* op, Scalar s, DType type) {
  return single(element(op, s, type), type);
}

Tensor readable(const Tensor& x) {
  constexpr int64_t kLarge = 4096;
  const Layout& l = x.layout();
  if (l.ndim() < 2 || std::abs(l.strides.back()) <= 1 || l.numel() < kLarge) return x;
  bool transposed = false;
  for (int a = 0; a < l.ndim() - 1; ++a) transposed |= std::abs(l.strides[a]) == 1;
  if (!transposed) return x;
  Fresh copy(x.shape(), x.dtype());
  write("clone", copy, x);
  return not_differentiable(copy);
}

void map(const char* op, const Fresh& out, const kernels::ElementwiseOp& f,
         std::initializer_list<std::reference_wrapper<const Tensor>> in) {
  if (out.numel() == 0) return;
  std::array<Tensor, kernels::kMaxOperands> x;
  std::array<kernels::Input, kernels::kMaxOperands> inputs;
  size_t n = 0;
  for (const Tensor& t : in) {
    x[n] = readable(t);
    inputs[n] = input_of(x[n]);
    ++n;
  }
  kernels::elementwise(plan(op, out.layout(), {x.data(), n}), address_of(out), {inputs.data(), n},
                       f);
}

Fresh binary_result(const char* name, const Tensor& a, const Tensor& b, bool integers) {
  check_defined(name, a, b);
  const DType type = promote(name, a.dtype(), b.dtype());
  return {broadcast_shapes(name, a.shape(), b.shape()), integers ? type : float_of(type)};
}

KeptInputs keep_inputs(const Tensor& a, const Tensor& b, Needs gradient_of_a, Needs gradient_of_b) {
  const auto needed = [&](Needs input) {
    const auto reads = [&](Needs n) { return n == input || n == Needs::both; };
    return (a.requires_grad() && reads(gradient_of_a)) ||
           (b.requires_grad() && reads(gradient_of_b));
  };
  KeptInputs kept;
  if (needed(Needs::a)) kept.a = save(a);
  if (needed(Needs::b)) kept.b = save(b);
  return kept;
}

}  // namespace tern::detail
