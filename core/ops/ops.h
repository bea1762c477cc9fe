// The tensor API. Names, argument order and meaning follow PyTorch. Families of ops have pages of
// their own, listed below.
//
// Common to all ops:
// - Inputs may have any layout (transposed, expanded, sliced, flipped, empty, zero-dimensional).
//   Gradients flow to every floating input, to second order unless an op says otherwise.
// - Axes may be negative. An empty list of axes means all axes.
// - Elementwise ops broadcast and promote types. Integers with floats give the float type, u8 with
//   i64 gives i64 (0-dimensional tensors too), f32 with f64 is an error that says which .to() to
//   add.
// - Comparisons give u8 tensors of 0 and 1. Masks are u8: not 0 means true.
// - Wrong arguments throw Error with the op's name, the rule and the values.
//
// Other pages: comparisons such as x > 0 (compare.h, included here), more elementwise functions
// (elementary.h), indexing (indexing.h), order statistics and counts (statistics.h), more losses
// (losses.h), linear algebra (linalg.h), Fourier transforms (fft.h, stft.h), complex products
// (complex.h), einsum and einops' rearrange, reduce and repeat (einsum.h), convolutions (conv.h),
// pooling (pooling.h), padding (padding.h), resizing (interpolate.h), sampling at positions
// (grid_sample.h), attention (attention.h), additive attention (additive.h), recurrent layers
// (rnn.h), linear recurrences (linear_scan.h), residual connections with dropout and norm
// (residual.h), own formulas in one pass (fused.h), hooks on gradients (gradient_hook.h).
// Gradients: core/tape/autograd.h.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tern/core/ops/creation/nested_numbers.h"
#include "tern/core/ops/elementwise/compare.h"
#include "tern/core/ops/scalar.h"
#include "tern/core/ops/shape/axis_slice.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

class Rng;

// ---- Creation --------------------------------------------------------------------------------
/// The elements in row-major order. Their number must match the shape. float gives f32, double f64,
/// uint8_t and bool u8, other integers i64.
template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape);
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape) {
  if constexpr (std::is_same_v<T, bool>) {
    return tensor(std::vector<uint8_t>(values.begin(), values.end()), shape);
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, int64_t> &&
                       !std::is_same_v<T, uint8_t>) {
    if constexpr (std::is_same_v<T, size_t> || std::is_same_v<T, unsigned long long>)
      for (T value : values) detail::check_index_fits(value);
    return tensor(std::vector<int64_t>(values.begin(), values.end()), shape);
  } else {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_integral_v<T>,
                  "tensor: the elements of the vector must be numbers or bools");
    return tensor(std::span<const T>(values), shape);
  }
}
/// A vector: shape (values.size()).
template <class T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(values, {static_cast<int64_t>(values.size())});
}
/// f32, for literals: tensor({1, 2, 3, 4}, {2, 2}).
Tensor tensor(std::initializer_list<Scalar> values, const Shape& shape, DType dtype = DType::f32);
template <std::same_as<std::initializer_list<double>> List>  // for variables: no braces match it
Tensor tensor(const List& values, const Shape& shape, DType dtype = DType::f32) {
  return detail::tensor_of(std::vector<Scalar>(values.begin(), values.end()), shape, dtype);
}
/// Nested lists: tensor({{1, 2}, {3, 4}}) is i64, tensor({1.5, 2}) is f32 because one number is
/// floating, as in PyTorch; bools give u8. Error if the lists have different lengths.
Tensor tensor(std::initializer_list<NestedNumbers> values);
template <std::same_as<DType> Type>  // a template, so that {} as second argument is a Shape
Tensor tensor(std::initializer_list<NestedNumbers> values, Type dtype) {
  return detail::tensor_of(values, dtype);
}
Tensor scalar(Scalar value, DType dtype = DType::f32);       ///< shape ()
Tensor empty(const Shape& shape, DType dtype = DType::f32);  ///< not initialised
Tensor full(const Shape& shape, Scalar value, DType dtype = DType::f32);
Tensor zeros(const Shape& shape, DType dtype = DType::f32);
Tensor ones(const Shape& shape, DType dtype = DType::f32);
Tensor zeros_like(const Tensor& x);  ///< shape and dtype of x
Tensor ones_like(const Tensor& x);   ///< shape and dtype of x
/// full_like takes the shape and dtype of x, new_full only its dtype.
Tensor full_like(const Tensor& x, Scalar value);
Tensor new_full(const Tensor& x, const Shape& shape, Scalar value);
/// start, start + step, ... below end (above it if step < 0). Empty if end comes before start, an
/// error in PyTorch. Fractions need a floating dtype, which PyTorch chooses by itself.
Tensor arange(Scalar start, Scalar end, Scalar step = 1, DType dtype = DType::i64);
inline Tensor arange(Scalar end) { return arange(0, end); }  ///< 0, 1, ..., end - 1
/// `steps` numbers at equal distances, from start to end inclusive.
Tensor linspace(double start, double end, int64_t steps, DType dtype = DType::f32);
Tensor eye(int64_t n, int64_t m = -1, DType dtype = DType::f32);  ///< (n, m); m = -1: (n, n)
inline Tensor eye(int64_t n, DType dtype) { return eye(n, n, dtype); }
Tensor randn(const Shape& shape, Rng& rng, DType dtype = DType::f32);  ///< standard normal
/// uniform: numbers in [low, high). bernoulli: 1 with probability p, else 0.
Tensor uniform(const Shape& shape, double low, double high, Rng& rng, DType dtype = DType::f32);
Tensor bernoulli(const Shape& shape, double p, Rng& rng, DType dtype = DType::f32);
Tensor randint(int64_t low, int64_t high, const Shape& shape, Rng& rng);  ///< i64 in [low, high)
Tensor randperm(int64_t n, Rng& rng);                                     ///< i64
Tensor randn_like(const Tensor& x, Rng& rng);                             ///< f32 or f64, as x
Tensor rand_like(const Tensor& x, Rng& rng);                              ///< uniform in [0, 1)
/// i64 indices (any shape) -> shape + (classes,).
Tensor one_hot(const Tensor& index, int64_t classes, DType dtype = DType::i64);

// ---- Copies and in-place writes ----------------------------------------------------------------
// Names that end in _ write into x and are not recorded. In grad mode neither x, nor a tensor that
// shares its elements, nor an operand may require a gradient (see NoGradGuard).
Tensor cast(const Tensor& x, DType dtype);  ///< always a new tensor
Tensor clone(const Tensor& x);
void copy_(const Tensor& to, const Tensor& from);  ///< broadcasts `from`, converts its dtype
void fill_(const Tensor& x, Scalar value);
void zero_(const Tensor& x);
void add_(const Tensor& x, const Tensor& y, double alpha = 1);  ///< x += alpha * y
void mul_(const Tensor& x, const Tensor& y);
void mul_(const Tensor& x, Scalar s);

// ---- Views: no element moves -----------------------------------------------------------------
Tensor view(const Tensor& x,
            const Shape& shape);  ///< one size may be -1; an error if this needs a copy
Tensor reshape(const Tensor& x, const Shape& shape);      ///< a view where possible, else a copy
Tensor transpose(const Tensor& x, int64_t a, int64_t b);  ///< swaps two axes
Tensor permute(const Tensor& x, const Dims& axes);        ///< axis i of the result is axes[i]
Tensor expand(const Tensor& x, const Shape& shape);       ///< -1 keeps a size
Tensor squeeze(const Tensor& x);                          ///< removes all axes of size 1
Tensor squeeze(const Tensor& x, int64_t axis);            ///< removes the axis if its size is 1
Tensor unsqueeze(const Tensor& x, int64_t axis);          ///< adds an axis of size 1
/// Python's x[start:end:step] along an axis. Ends are clamped, negative ends count from the end.
/// step may be negative; the default ends are then Python's.
Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> start,
             std::optional<int64_t> end, int64_t step = 1);
/// Several axes at once, from the first: slice(x, {{}, {1, 3}, 2}) is Python's x[:, 1:3, 2]
/// (axis_slice.h). Axes that are not named stay whole. slice(x, {{}, {1, 3}}) = 0 writes into x.
Tensor slice(const Tensor& x, const std::vector<AxisSlice>& axes);
inline Tensor slice(const Tensor& x, std::initializer_list<AxisSlice> axes) {
  return slice(x, std::vector<AxisSlice>(axes));
}
/// narrow: x[start : start + length] along an axis. select: one index; the result lacks the axis.
Tensor narrow(const Tensor& x, int64_t axis, int64_t start, int64_t length);
Tensor select(const Tensor& x, int64_t axis, int64_t index);
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);  ///< joins axes
Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes);    ///< splits an axis
Tensor flip(const Tensor& x, const Dims& axes);                         ///< reverses axes
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t a = 0, int64_t b = 1);
/// Sliding windows along an axis, as a new last axis. A 0-dimensional x has one window.
Tensor unfold(const Tensor& x, int64_t axis, int64_t size, int64_t step);
/// Views of the parts of an axis: `chunks` of about the same size, parts of `size`, or of `sizes`.
[[nodiscard]] std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t axis = 0);
[[nodiscard]] std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis = 0);
[[nodiscard]] std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes,
                                        int64_t axis = 0);
[[nodiscard]] inline std::vector<Tensor> split(const Tensor& x,
                                               std::initializer_list<int64_t> sizes,
                                               int64_t axis = 0) {
  return split(x, std::vector<int64_t>(sizes), axis);
}

// ---- Joining, rearranging, indexing ----------------------------------------------------------
Tensor cat(const std::vector<Tensor>& xs, int64_t axis = 0);    ///< along an existing axis
Tensor stack(const std::vector<Tensor>& xs, int64_t axis = 0);  ///< along a new axis
/// PyTorch's order: {left, right} of the last axis, then of the one before, ... Negative pads crop.
Tensor pad(const Tensor& x, const Dims& pads, Scalar value = 0);
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& axes);        ///< cyclic shift
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t axis);  ///< a a b b
/// torch.Tensor.repeat: repeats axis i counts[i] times. counts may begin with new axes. Always
/// copies. The overload repeat(x, "h w -> h (w 2)") is einops' (einsum.h).
Tensor repeat(const Tensor& x, const Dims& counts);
// Without these overloads repeat(x, {2, 1}) and repeat(x, 0) could also mean a pattern.
inline Tensor repeat(const Tensor& x, std::initializer_list<int64_t> counts) {
  return repeat(x, Dims(counts.begin(), counts.end()));
}
inline Tensor repeat(const Tensor& x, int64_t count) { return repeat(x, Dims(count)); }
/// As repeat, but `counts` may have fewer entries than x has axes. They belong to the last axes.
Tensor tile(const Tensor& x, const Dims& counts);
Tensor tril(const Tensor& x, int64_t diagonal = 0);  ///< 0 above the diagonal
Tensor triu(const Tensor& x, int64_t diagonal = 0);  ///< 0 below it
/// a where condition (u8) is not 0, else b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
Tensor where(const Tensor& condition, Scalar a, Scalar b);  ///< i64 if both are integers, else f32
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);  ///< keeps the dtype of x
/// out[i][j] = x[index[i][j]][j] for axis 0; index is i64.
Tensor gather(const Tensor& x, int64_t axis, const Tensor& index);
/// x with source[i][j] added at [index[i][j]][j] for axis 0.
Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);
Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index);  ///< index (K,)
/// As gather, but the other axes broadcast.
Tensor take_along_axis(const Tensor& x, const Tensor& index, int64_t axis);
struct [[nodiscard]] ValuesIndices {
  Tensor values;   ///< differentiable
  Tensor indices;  ///< i64
};
ValuesIndices topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);  ///< sorted
ValuesIndices sort(const Tensor& x, int64_t axis = -1, bool descending = false);         ///< stable
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);             ///< i64
/// The index of the largest element: the first of equals, NaN first. No axis: the row-major index.
Tensor argmax(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);
template <std::same_as<bool> Truth>
void topk(const Tensor&, int64_t, Truth, bool = true) = delete;  // a bool is no axis
template <std::same_as<bool> Truth>
void sort(const Tensor&, Truth, bool = false) = delete;
template <std::same_as<bool> Truth>
void argsort(const Tensor&, Truth, bool = false) = delete;
template <std::same_as<bool> Truth>
void argmax(const Tensor&, Truth, bool = false) = delete;
template <std::same_as<bool> Truth>
void argmin(const Tensor&, Truth, bool = false) = delete;

// ---- Arithmetic --------------------------------------------------------------------------------
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);  ///< integers give f32
/// Integer division by zero is an error. Integers wrap around on overflow.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);  ///< sign of the divisor, as in Python
/// Integers wrap around. A negative exponent of integers: a number is an error, a tensor truncates.
Tensor pow(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);  ///< NaN propagates; equals share the gradient
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, Scalar b);
Tensor sub(const Tensor& a, Scalar b);
Tensor sub(Scalar a, const Tensor& b);
Tensor mul(const Tensor& a, Scalar b);
Tensor div(const Tensor& a, Scalar b);
Tensor div(Scalar a, const Tensor& b);
Tensor floor_divide(const Tensor& a, Scalar b);
Tensor remainder(const Tensor& a, Scalar b);
Tensor pow(const Tensor& a, Scalar b);
Tensor pow(Scalar a, const Tensor& b);
Tensor minimum(const Tensor& a, Scalar b);
Tensor maximum(const Tensor& a, Scalar b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(a, b); }
Tensor neg(const Tensor& x);
inline Tensor operator-(const Tensor& x) { return neg(x); }
// In place, as add_ and mul_: all handles on x and its views see the change (x[0] += 1). They
// are not recorded: in grad mode it is an error if x or the operand requires a gradient. Write
// `x = x + y` there. /= needs floats.
const Tensor& operator+=(const Tensor& x, const Tensor& y);
const Tensor& operator-=(const Tensor& x, const Tensor& y);
const Tensor& operator*=(const Tensor& x, const Tensor& y);
const Tensor& operator/=(const Tensor& x, const Tensor& y);
const Tensor& operator+=(const Tensor& x, Scalar y);
const Tensor& operator-=(const Tensor& x, Scalar y);
const Tensor& operator*=(const Tensor& x, Scalar y);
const Tensor& operator/=(const Tensor& x, Scalar y);
// index(x, {i}) += y is an error: index copies, so the sum would be lost. x[0] += y is none.
template <std::same_as<Tensor> Temporary, class Y>
const Tensor& operator+=(Temporary&& x, const Y& y) {
  x.check_shared();
  return std::as_const(x) += y;
}
template <std::same_as<Tensor> Temporary, class Y>
const Tensor& operator-=(Temporary&& x, const Y& y) {
  x.check_shared();
  return std::as_const(x) -= y;
}
template <std::same_as<Tensor> Temporary, class Y>
const Tensor& operator*=(Temporary&& x, const Y& y) {
  x.check_shared();
  return std::as_const(x) *= y;
}
template <std::same_as<Tensor> Temporary, class Y>
const Tensor& operator/=(Temporary&& x, const Y& y) {
  x.check_shared();
  return std::as_const(x) /= y;
}

// ---- Functions of one tensor (integers give f32 where the result is fractional) --------------
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);  ///< log(1 + x)
Tensor expm1(const Tensor& x);  ///< e^x - 1
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);  ///< 1 / sqrt(x)
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor abs(const Tensor& x);   ///< gradient 0 at 0
Tensor sign(const Tensor& x);  ///< -1, 0 or 1
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor relu(const Tensor& x);   ///< max(x, 0)
enum class Gelu { erf, tanh };  ///< x*Phi(x), or its tanh approximation (Hendrycks & Gimpel 2016)
Tensor gelu(const Tensor& x, Gelu form = Gelu::erf);
Tensor silu(const Tensor& x);                             ///< x * sigmoid(x)
Tensor softplus(const Tensor& x);                         ///< log(1 + e^x)
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  ///< x > 0 ? x : slope * x
Tensor elu(const Tensor& x, double alpha = 1);            ///< x > 0 ? x : alpha (e^x - 1)
Tensor mish(const Tensor& x);                             ///< x tanh(log(1 + e^x)) (Misra 2019)
Tensor hardswish(const Tensor& x);    ///< x min(max(x + 3, 0), 6) / 6 (Howard et al. 2019)
Tensor log_sigmoid(const Tensor& x);  ///< log(1 / (1 + e^-x)), without overflow
/// min(max(x, low), high); relu6 uses 0 and 6 (Krizhevsky 2010). Gradients are those of clamp.
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
Tensor relu6(const Tensor& x);
Tensor hardsigmoid(const Tensor& x);  ///< min(max(x + 3, 0), 6) / 6
/// 1.0507 elu(x, 1.67326), with the exact numbers of the paper (Klambauer et al. 2017).
Tensor selu(const Tensor& x);
Tensor celu(const Tensor& x, double alpha = 1);           ///< x > 0 ? x : alpha (e^(x / alpha) - 1)
Tensor softsign(const Tensor& x);                         ///< x / (1 + |x|)
Tensor tanhshrink(const Tensor& x);                       ///< x - tanh(x)
Tensor softshrink(const Tensor& x, double lambda = 0.5);  ///< x moved towards 0 by up to lambda
Tensor hardshrink(const Tensor& x, double lambda = 0.5);  ///< |x| > lambda ? x : 0
/// x where it is positive, else weight * x (He et al. 2015). weight: (1) or () for all elements, or
/// (C) for the channels of x (N, C, ...).
Tensor prelu(const Tensor& x, const Tensor& weight);
/// a * sigmoid(b), where a and b are the halves of x along the axis (Dauphin et al. 2017).
Tensor glu(const Tensor& x, int64_t axis = -1);
/// The gradient is 1 strictly between the bounds, else 0. std::nullopt means no bound. A NaN bound
/// gives NaN.
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  ///< halves to even

// ---- Reductions ------------------------------------------------------------------------------
Tensor sum(const Tensor& x, const Dims& axes = {}, bool keepdim = false);  ///< integers: i64
Tensor sum_to(const Tensor& x, const Shape& shape);  ///< undoes broadcasting from `shape`
Tensor mean(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Divides by n - correction.
Tensor var(const Tensor& x, const Dims& axes = {}, int64_t correction = 1, bool keepdim = false);
Tensor std(const Tensor& x, const Dims& axes = {}, int64_t correction = 1, bool keepdim = false);
/// The same as std. After `using namespace tern;` a plain `std(x)` does not compile, because std
/// also names the standard library's namespace: write stddev(x) or tern::std(x).
Tensor stddev(const Tensor& x, const Dims& axes = {}, int64_t correction = 1, bool keepdim = false);
template <std::same_as<bool> Truth>  // a bool is no correction: var(x, 1, 1, true) keeps the axis
void var(const Tensor&, const Dims&, Truth, bool = false) = delete;
template <std::same_as<bool> Truth>
void std(const Tensor&, const Dims&, Truth, bool = false) = delete;
template <std::same_as<bool> Truth>
void stddev(const Tensor&, const Dims&, Truth, bool = false) = delete;
/// The largest (smallest) element of all. NaN propagates. Equal elements share the gradient.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
/// Along one axis: values and indices, which are those of argmax. Only the elements at the indices
/// get a gradient.
ValuesIndices max(const Tensor& x, int64_t axis, bool keepdim = false);
ValuesIndices min(const Tensor& x, int64_t axis, bool keepdim = false);
/// The larger (smaller) of two elements: maximum, minimum.
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
/// Over any axes: amax(x, {0, 1}). NaN propagates. Equal elements share the gradient.
Tensor amax(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
void max(const Tensor&, std::initializer_list<int64_t>, bool = false) = delete;  // amax(x, {1})
void min(const Tensor&, std::initializer_list<int64_t>, bool = false) = delete;  // amin(x, {1})
Tensor prod(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// (sum |x|^p)^(1/p); p may be 0, 1, 2, any number, or infinity.
Tensor norm(const Tensor& x, double p = 2, const Dims& axes = {}, bool keepdim = false);
void norm(const Tensor&, std::initializer_list<int64_t>, bool = false) = delete;  // norm(x, 2, {1})
/// log sum e^x. Its gradient is softmax, which is 0 / 0 in a line that is all -inf. There PyTorch
/// gives NaN. Here the gradient is 0, so that masked lines do not turn other gradients into NaN.
Tensor logsumexp(const Tensor& x, const Dims& axes, bool keepdim = false);
Tensor cumsum(const Tensor& x, int64_t axis);                              ///< running sums
Tensor any(const Tensor& x, const Dims& axes = {}, bool keepdim = false);  ///< u8
Tensor all(const Tensor& x, const Dims& axes = {}, bool keepdim = false);  ///< u8

// ---- Matrix products -------------------------------------------------------------------------
/// NumPy's matmul: (..., M, K) x (..., K, N), leading axes broadcast, vectors as in NumPy.
Tensor matmul(const Tensor& a, const Tensor& b);
enum class Activation { none, relu, gelu, gelu_tanh, silu, tanh, sigmoid };
struct LinearOptions {
  Activation activation = Activation::none;
  Tensor residual = {};  ///< added last; has the output's shape
  double dropout = 0;    ///< probability of zeroing; above 0 it needs `rng`
  Rng* rng = nullptr;
};
/// dropout(activation(x W^T + b)) + residual in one op. x (..., K), w (N, K), b (N) or undefined.
/// Dropout zeroes the same elements as dropout() with this generator.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const LinearOptions& options = {});

// ---- Softmax and normalisation ---------------------------------------------------------------
/// mask: u8, broadcasts to x. Where it is 0 the result is 0. A row without a 1 gives zeros.
Tensor softmax(const Tensor& x, int64_t axis, const Tensor& mask = {});
/// As softmax. Masked elements give -inf, as do all elements of a row without a 1.
Tensor log_softmax(const Tensor& x, int64_t axis, const Tensor& mask = {});
/// Normalises over the last axes, whose sizes are `shape`: (x - mean) / sqrt(var + eps) * weight +
/// bias. weight and bias have that shape, or are undefined.
Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) * weight, over the same axes. The default eps is PyTorch's for f32.
Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                double eps = 0x1p-23);
/// x (N, C, ...). Each group has C / groups channels.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
struct BatchNormOptions {
  bool training = false;
  double momentum = 0.1;  ///< weight of the new batch in the running statistics
  double eps = 1e-5;
};
/// x (N, C, ...). In training: normalises by the batch's statistics and updates running_mean and
/// running_var (C; unbiased variance) in place if they are defined. Else: normalises by these two.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {},
                  const BatchNormOptions& options = {});
struct InstanceNormOptions {
  bool use_input_stats = true;  ///< false: normalises by the running statistics
  double momentum = 0.1, eps = 1e-5;
};
/// As batch_norm, with statistics of each sample (Ulyanov et al. 2016). x (N, C, ...) with at least
/// one spatial axis. Running statistics (C), if defined, are updated by the means over the samples.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {},
                     const Tensor& running_var = {}, const Tensor& weight = {},
                     const Tensor& bias = {}, const InstanceNormOptions& options = {});
/// Zeroes elements with probability p and scales the others by 1/(1-p). p = 0 returns x itself.
Tensor dropout(const Tensor& x, double p, Rng& rng);
/// The same for whole channels: x (N, C, L), (N, C, H, W), (N, C, D, H, W) (Tompson et al. 2015).
Tensor dropout1d(const Tensor& x, double p, Rng& rng);
Tensor dropout2d(const Tensor& x, double p, Rng& rng);
Tensor dropout3d(const Tensor& x, double p, Rng& rng);
struct EmbeddingOptions {
  /// This row gets no gradient. Negative: from the end, so -1 is the last row.
  std::optional<int64_t> padding_idx = {};
  /// padding_idx counted from 0, for a table of `rows` rows. Error if it is out of range.
  std::optional<int64_t> padding_row(int64_t rows) const;
};
/// i64 index (any shape), weight (V, D) -> shape + (D,).
Tensor embedding(const Tensor& index, const Tensor& weight, const EmbeddingOptions& options = {});

// ---- Losses ----------------------------------------------------------------------------------
enum class Reduction { none, mean, sum };
struct CrossEntropyOptions {
  Tensor weight = {};  ///< (C), one factor per class
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;  ///< mean divides by the weights of the counted targets
};
/// The mean of -log softmax(x)_t = log(sum_c exp(x_c)) - x_t over the samples, where x are a
/// sample's logits and t is its class. `weight` multiplies the loss of a sample by weight_t.
/// Targets that are probabilities p give sum_c weight_c p_c (log(sum_k exp(x_k)) - x_c).
/// label_smoothing s mixes (1 - s) of the target with s / C of every class.
///
/// logits (N, C), (C) or (N, C, d1, ...). target: i64 classes of shape (N), () or (N, d1, ...), or
/// floating probabilities in the shape of logits; these get a gradient too and take no
/// ignore_index. If no target counts, the loss is 0 with zero gradient, where PyTorch gives NaN;
/// nll_loss likewise.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {});
/// cross_entropy(linear(x, weight, bias), target) without holding all logits at once: x (..., D),
/// weight (V, D), bias (V) or undefined, target i64 classes (...). Logits are computed in blocks of
/// rows. If a gradient is wanted and the losses are reduced, forward computes each block's gradient
/// at once and backward only scales it (aim: Wijmans et al. 2024, "Cut Your Losses in
/// Large-Vocabulary Language Models"; method: Hsu et al. 2024, "Liger Kernel").
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& target, const CrossEntropyOptions& options = {});
struct NllOptions {
  Tensor weight = {};
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllOptions& options = {});
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta = 1,
                      Reduction reduction = Reduction::mean);
struct BceOptions {
  Tensor weight = {};      ///< a factor per element, broadcast
  Tensor pos_weight = {};  ///< a factor on the positive term, broadcast
  Reduction reduction = Reduction::mean;
};
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& options = {});
struct KlDivOptions {
  bool log_target = false;
  Reduction reduction = Reduction::mean;
  /// PyTorch's reduction "batchmean": the sum divided by the first size, as in mathematics. Error
  /// beside another `reduction` than mean.
  bool batch_mean = false;
};
/// target * (log target - log_probs).
Tensor kl_div(const Tensor& log_probs, const Tensor& target, const KlDivOptions& options = {});

}  // namespace tern
