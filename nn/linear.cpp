// Initial values of Linear, Bilinear and Embedding. The products are in core/ops.
#include "tern/nn/linear.h"

#include <cmath>

#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/core/tape/record.h"
#include "tern/nn/init.h"

namespace tern::nn {
namespace {

// Draws the weight (out, in, ...) and the bias from U(±1/sqrt(in)).
void draw(Parameter& weight, Parameter& bias, Rng& rng, Bias with_bias) {
  const int64_t out = weight.size(0), in = weight.size(1);
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  init::uniform(weight, -bound, bound, rng);
  if (with_bias == Bias::no) return;
  bias = Parameter(empty({out}));
  init::uniform(bias, -bound, bound, rng);
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, Rng& rng, Bias with_bias) : weight(empty({out, in})) {
  draw(weight, bias, rng, with_bias);
}

Bilinear::Bilinear(int64_t in1, int64_t in2, int64_t out, Rng& rng, Bias with_bias)
    : weight(empty({out, in1, in2})) {
  draw(weight, bias, rng, with_bias);
}

Tensor Bilinear::operator()(const Tensor& x1, const Tensor& x2) const {
  ModuleScope module(weight);
  check_defined("Bilinear", x1, x2);
  check(x1.ndim() > 0 && x2.ndim() > 0 && x1.size(-1) == weight.size(1) &&
            x2.size(-1) == weight.size(2),
        "Bilinear: the last axes must be {} and {}, got shapes {} and {}", weight.size(1),
        weight.size(2), x1.shape(), x2.shape());
  const Tensor y = einsum("...i,oij,...j->...o", {x1, weight, x2});
  return bias.defined() ? y + bias : y;
}

Embedding::Embedding(int64_t count, int64_t dim, Rng& rng, const EmbeddingOptions& o)
    : weight(empty({count, dim})), options(o) {
  const auto padding = o.padding_row(count);
  init::normal(weight, 0, 1, rng);
  NoGradGuard no_grad;
  if (padding) zero_(select(weight, 0, *padding));
}

}  // namespace tern::nn
