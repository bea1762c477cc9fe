// The score of additive attention (Bahdanau et al. 2014).
#pragma once

#include "tern/core/tensor/tensor.h"

namespace tern {

/// A hidden layer of tanh on every pair of a query and a key, in one pass:
///   scores[b,i,j] = sum_h w[h] tanh(q[b,i,h] + k[b,j,h])
/// q (B, Q, H) and k (B, S, H) are already projected; w (H); scores (B, Q, S). Nothing of size B Q
/// S H is kept: backward recomputes it.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& w);

}  // namespace tern
