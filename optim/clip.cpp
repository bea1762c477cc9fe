#include "tern/optim/clip.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/optim.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/pieces.h"

namespace tern::optim {
namespace {

struct Gradients {
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  std::vector<Piece> pieces;
};

// The gradients there are, contiguous (a gradient that is not is replaced by one that is).
Gradients collect(const NamedTensors& parameters) {
  Gradients out;
  for (const auto& [name, p] : parameters) {
    Tensor g = p.grad();
    if (!g.defined()) continue;
    if (!g.is_contiguous()) p.set_grad(g = g.contiguous());
    cut(out.pieces, out.tensors.size(), g.numel());
    out.names.push_back(name);
    out.tensors.push_back(g);
  }
  return out;
}

template <class Fn>
void write_all(const Gradients& grads, Fn fn) {
  for (const Tensor& g : grads.tensors) g.begin_write("clip_grad");
  parallel_blocks(static_cast<int64_t>(grads.pieces.size()), work(grads.pieces), [&](int64_t i) {
    const Piece& piece = grads.pieces[static_cast<size_t>(i)];
    const Tensor& g = grads.tensors[piece.item];
    dispatch_float(g.dtype(), "clip_grad",
                   [&]<class T>() { fn(const_cast<T*>(g.data<T>()) + piece.begin, piece.count); });
  });
}

// One number a piece: its sum of squares, or its largest absolute value.
std::vector<double> measure(const Gradients& grads, bool largest) {
  std::vector<double> out(grads.pieces.size());
  parallel_blocks(static_cast<int64_t>(out.size()), work(grads.pieces), [&](int64_t i) {
    const Piece& piece = grads.pieces[static_cast<size_t>(i)];
    const Tensor& g = grads.tensors[piece.item];
    dispatch_float(g.dtype(), "clip_grad_norm", [&]<class T>() {
      const T* x = g.data<T>() + piece.begin;
      out[static_cast<size_t>(i)] =
          largest ? kernels::max_abs(x, piece.count) : kernels::sum_squares(x, piece.count);
    });
  });
  return out;
}

}  // namespace

double clip_grad_norm(const NamedTensors& parameters, double max_norm,
                      const ClipNormOptions& options) {
  bool largest = std::isinf(options.p);
  check(largest || options.p == 2, "clip_grad_norm: the norm is 2 or infinity, not {}", options.p);
  check(max_norm >= 0, "clip_grad_norm: the bound must not be negative, it is {}", max_norm);
  NoGradGuard no_grad;
  Gradients grads = collect(parameters);
  std::vector<double> measures = measure(grads, largest);
  double norm = 0;
  for (size_t i = 0; i < measures.size(); ++i) {
    check(std::isfinite(measures[i]) || !options.error_if_nonfinite,
          "clip_grad_norm: the gradient of '{}' is not finite; lower the learning rate or look for "
          "a division by zero",
          grads.names[grads.pieces[i].item]);
    if (!largest)
      norm += measures[i];
    else if (!(measures[i] <= norm))
      norm = std::isnan(norm) ? norm : measures[i];
  }
  if (!largest) norm = std::sqrt(norm);
  double factor = max_norm / (norm + 1e-6);
  if (!(factor >= 1)) write_all(grads, [=](auto* x, int64_t n) { kernels::scale(x, n, factor); });
  return norm;
}

void clip_grad_value(const NamedTensors& parameters, double bound) {
  check(bound >= 0, "clip_grad_value: the bound must not be negative, it is {}", bound);
  NoGradGuard no_grad;
  write_all(collect(parameters), [=](auto* x, int64_t n) { kernels::clamp(x, n, bound); });
}

}  // namespace tern::optim
