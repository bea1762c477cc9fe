// Order statistics, running extremes and products, counts and draws. Names, arguments and gradients
// are PyTorch's. NaN counts as greater than every number where elements are ordered, and spreads
// where PyTorch's does: median, quantile, cummax, cummin.
#pragma once

#include <optional>

#include "tern/core/ops/ops.h"

namespace tern {

// ---- Order statistics ------------------------------------------------------------------------
/// Element number (n - 1) / 2 in order: of an even number the lower of the two in the middle. Over
/// all elements, where those that equal it share the gradient (NaN of nothing); or along an axis,
/// where the one at `indices` gets it.
Tensor median(const Tensor& x);
ValuesIndices median(const Tensor& x, int64_t axis, bool keepdim = false);
/// The k-th smallest, k from 1.
ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t axis = -1, bool keepdim = false);
/// Between which elements a quantile lies, and what is taken of them.
enum class QuantileInterpolation { linear, lower, higher, midpoint, nearest };
struct QuantileOptions {
  std::optional<int64_t> axis = {};  ///< none: over all elements
  bool keepdim = false;
  QuantileInterpolation interpolation = QuantileInterpolation::linear;
};
/// What lies at q (n - 1) in order, q in [0, 1]. Several q, a vector of the type of x, stand along
/// a new first axis.
Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});
Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
struct VarMean {
  Tensor var, mean;
};
VarMean var_mean(const Tensor& x, const Dims& axes = {}, int64_t correction = 1,
                 bool keepdim = false);

// ---- Running along an axis -------------------------------------------------------------------
Tensor cumprod(const Tensor& x, int64_t axis);  ///< integers: i64
/// The largest (smallest) so far, and where it was: of equals the last.
ValuesIndices cummax(const Tensor& x, int64_t axis);
ValuesIndices cummin(const Tensor& x, int64_t axis);

// ---- Counts ----------------------------------------------------------------------------------
struct UniqueOptions {
  bool sorted = true;  ///< false: in the order in which they first occur
  bool return_inverse = false;
  bool return_counts = false;
  std::optional<int64_t> axis = {};  ///< whole slices along it, in lexicographic order
};
struct Unique {
  Tensor values;   ///< (K,), or x with K slices along the axis; its backward pass is an error
  Tensor inverse;  ///< i64: which of them each element (slice) is; undefined if not asked for
  Tensor counts;   ///< i64 (K,); undefined if not asked for
};
/// The distinct elements. No NaN equals another.
Unique unique(const Tensor& x, const UniqueOptions& options = {});
/// x (n,) integers, none negative -> how often each number occurs, or the sum of its weights (n,),
/// which get a gradient; from 0 to the largest, or to minlength - 1. i64, or the type of the
/// weights (f64 for integers).
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);
/// Where in the ascending `sorted` each value belongs, before its equals or (right) behind them.
/// sorted (n,), or (..., n) for values (..., m).
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);
Tensor searchsorted(const Tensor& sorted, Scalar value, bool right = false);
struct HistogramOptions {
  std::optional<std::pair<double, double>> range = {};  ///< else from the smallest to the largest
  Tensor weight = {};                                   ///< of the shape of x
  bool density = false;                                 ///< divided by the total and the widths
};
struct Histogram {
  Tensor hist;       ///< (bins,), no gradient
  Tensor bin_edges;  ///< (bins + 1,)
};
/// Bins of equal width, or between ascending edges. The last takes its upper edge too; what lies
/// outside is not counted.
Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options = {});
Histogram histogram(const Tensor& x, const Tensor& edges, const HistogramOptions& options = {});

// ---- Draws -----------------------------------------------------------------------------------
/// Indices drawn by weights (C,) or (N, C), which need not sum to 1 -> i64 (n,) or (N, n). Without
/// replacement (Efraimidis and Spirakis 2006) a row needs n weights that are not 0.
Tensor multinomial(const Tensor& weights, int64_t n, Rng& rng, bool replacement = false);

}  // namespace tern
