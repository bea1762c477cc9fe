// Initial values of Linear and Embedding. The products are in core/ops.
#include "tern/nn/linear.h"

#include <cmath>

#include "tern/core/tape/autograd.h"
#include "tern/nn/init.h"

namespace tern::nn {

Linear::Linear(int64_t in, int64_t out, Rng& rng, Bias with_bias) : weight(empty({out, in})) {
  double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  init::uniform(weight, -bound, bound, rng);
  if (with_bias == Bias::no) return;
  bias = Parameter(empty({out}));
  init::uniform(bias, -bound, bound, rng);
}

Embedding::Embedding(int64_t count, int64_t dim, Rng& rng, const EmbeddingOptions& o)
    : weight(empty({count, dim})), options(o) {
  const auto padding = o.padding_row(count);
  init::normal(weight, 0, 1, rng);
  NoGradGuard no_grad;
  if (padding) zero_(select(weight, 0, *padding));
}

}  // namespace tern::nn
