// Order statistics, running extremes and products, counts, sampling. Names, arguments and gradients
// are PyTorch's. NaN sorts above every number. It propagates where PyTorch's does: median,
// quantile, cummax, cummin.
#pragma once

#include <optional>

#include "tern/core/ops/ops.h"

namespace tern {

// ---- Order statistics ------------------------------------------------------------------------
/// Element (n - 1) / 2 in ascending order: for even n the lower of the two middle ones. Without an
/// axis: over all elements; those equal to the median share the gradient, NaN as well.
/// Along an axis: the element at `indices` gets the gradient.
Tensor median(const Tensor& x);
ValuesIndices median(const Tensor& x, int64_t axis, bool keepdim = false);
/// The k-th smallest element; k counts from 1.
ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t axis = -1, bool keepdim = false);
/// How a quantile that lies between two elements is computed from them.
enum class QuantileInterpolation { linear, lower, higher, midpoint, nearest };
struct QuantileOptions {
  std::optional<int64_t> axis = {};  ///< none: over all elements
  bool keepdim = false;
  QuantileInterpolation interpolation = QuantileInterpolation::linear;
};
/// The value at position q (n - 1) of the sorted elements, q in [0, 1]. Several q are a vector of
/// the type of x; their results form a new first axis.
Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});
Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
struct VarMean {
  Tensor var, mean;
};
VarMean var_mean(const Tensor& x, const Dims& axes = {}, int64_t correction = 1,
                 bool keepdim = false);
template <std::same_as<bool> Truth>
void var_mean(const Tensor&, const Dims&, Truth, bool = false) = delete;  // a bool is no correction

// ---- Cumulative along an axis -----------------------------------------------------------------
Tensor cumprod(const Tensor& x, int64_t axis);  ///< integers: i64
/// Differences of neighbours along an axis, n times: (..., L, ...) -> (..., max(L - n, 0), ...). u8
/// wraps around.
Tensor diff(const Tensor& x, int64_t n = 1, int64_t axis = -1);
/// The largest (smallest) element so far and its index; the last of equals.
ValuesIndices cummax(const Tensor& x, int64_t axis);
ValuesIndices cummin(const Tensor& x, int64_t axis);

// ---- Counts ----------------------------------------------------------------------------------
struct UniqueOptions {
  bool sorted = true;  ///< false: in order of first occurrence
  bool return_inverse = false;
  bool return_counts = false;
  std::optional<int64_t> axis = {};  ///< compares whole slices along it, sorts lexicographically
};
struct Unique {
  Tensor values;   ///< (K), or x with K slices along the axis; no gradient: backward is an error
  Tensor inverse;  ///< i64: the position of each element (slice) in values, if asked for
  Tensor counts;   ///< i64 (K): how often each occurs, if asked for
};
/// The distinct elements. NaN never equals NaN.
Unique unique(const Tensor& x, const UniqueOptions& options = {});
/// x (n) non-negative integers -> how often each number from 0 to the largest (or minlength - 1)
/// occurs, as i64. With weights (n): the sum of the weights of each number, in the type of the
/// weights (f64 for integers). The weights get a gradient.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);
/// The position at which each value would be inserted into the ascending `sorted`: before equal
/// elements, or (right) after them; NaN is above all numbers. sorted (n), or (..., n) with values
/// (..., m). Integers and fractions are compared in f64.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);
Tensor searchsorted(const Tensor& sorted, Scalar value, bool right = false);
struct HistogramOptions {
  std::optional<std::pair<double, double>> range = {};  ///< default: smallest to largest element
  Tensor weight = {};                                   ///< has the shape of x
  bool density = false;                                 ///< divide by the total and by the widths
};
struct Histogram {
  Tensor hist;       ///< (bins,), no gradient
  Tensor bin_edges;  ///< (bins + 1,)
};
/// Bins of equal width, or between ascending edges. The last bin includes its upper edge. Values
/// outside all bins are not counted.
Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options = {});
Histogram histogram(const Tensor& x, const Tensor& edges, const HistogramOptions& options = {});

// ---- Sampling ----------------------------------------------------------------------------------
/// Samples indices in proportion to weights (C) or (N, C), which need not sum to 1 -> i64 (n) or
/// (N, n). Without replacement (Efraimidis & Spirakis 2006) each row needs n nonzero weights.
Tensor multinomial(const Tensor& weights, int64_t n, Rng& rng, bool replacement = false);

}  // namespace tern
