// Linear recurrences along an axis, as in gated and diagonal state-space models. Forward and
// backward run in parallel over lines and, if there are few lines, over time.
//
//   // minGRU (Feng et al. 2024, "Were RNNs All We Needed?"); x, z (B, T, D)
//   Tensor h = linear_scan(1 - z, z * candidate, 1);
//
//   // the selective scan of Mamba (Gu & Dao 2023, algorithm 2); x, delta (B, T, D), A (D, N),
//   // B and C (B, T, N)
//   Tensor d = unsqueeze(delta, -1);
//   Tensor h = linear_scan(exp(d * A), d * unsqueeze(B, 2) * unsqueeze(x, -1), 1);
//   Tensor y = einsum("b t d n, b t n -> b t d", {h, C});
#pragma once

#include "tern/core/tensor/tensor.h"

namespace tern {

struct LinearScanOptions {
  Tensor initial = {};   ///< h before the first step; undefined: zeros
  bool reverse = false;  ///< runs from the last step to the first: h_t = a_t h_{t+1} + b_t
};

/// h_t = a_t h_{t-1} + b_t along the axis. a and b are floating, of one type, and broadcast to the
/// shape of h. `initial` broadcasts to that shape without the axis. a = 1 gives cumsum.
/// Gradients flow to a, b and `initial`, to any order: db is the scan of dh in the other direction,
/// da_t = db_t h_{t-1}. They need a and h, which are kept. Results do not depend on the number of
/// threads, to the bit.
/// Error: operands without axes, integers, or types and shapes that do not fit.
Tensor linear_scan(const Tensor& a, const Tensor& b, int64_t axis,
                   const LinearScanOptions& options = {});

}  // namespace tern
