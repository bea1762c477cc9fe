// reflect, replicate and circular padding, axis by axis, as linear maps (integers: index_select);
// and pad_sequence.
#include "tern/core/ops/convolution/padding.h"

#include <algorithm>

#include "tern/core/ops/convolution/axis_map.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

constexpr const char* kPaddingModes[] = {"zeros", "reflect", "replicate", "circular"};

/// The element that position i shows, on an axis of n elements extended to both sides.
int64_t source(PaddingMode mode, int64_t i, int64_t n) {
  if (mode == PaddingMode::replicate) return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == PaddingMode::circular) return i < 0 ? i + n : i >= n ? i - n : i;
  if (i < 0) return -i;
  return i >= n ? 2 * (n - 1) - i : i;
}

void check_pads(PaddingMode mode, int64_t left, int64_t right, int64_t n, const Shape& shape) {
  const char* name = kPaddingModes[static_cast<int>(mode)];
  const int64_t most = mode == PaddingMode::circular ? n : n - 1;
  if (mode != PaddingMode::replicate)
    check(left <= most && right <= most,
          "pad: {} takes at most {} on each side of an axis of {}, got {} and {} for shape {}",
          name, most, n, left, right, shape);
  check(n > 0, "pad: {} has nothing to repeat along an axis of 0 elements of shape {}", name,
        shape);
  const int64_t size = checked_sum("pad", checked_sum("pad", n, left), right);
  check(left >= -n && right >= -n && size >= 0,
        "pad: {} and {} remove more elements than an axis of {} has", left, right, n);
}

Tensor pad_axis(const Tensor& x, int axis, int64_t left, int64_t right, PaddingMode mode);

// Crops first, so that cropped elements do not reappear on the other side.
Tensor crop_first(const Tensor& x, int axis, int64_t left, int64_t right) {
  const int64_t n = x.shape()[axis], start = std::max<int64_t>(-left, 0);
  const int64_t kept = n - start - std::max<int64_t>(-right, 0);
  check(left >= -n && right >= -n && kept >= 0,
        "pad: {} and {} remove more elements than an axis of {} has", left, right, n);
  return pad_axis(narrow(x, axis, start, kept), axis, std::max<int64_t>(left, 0),
                  std::max<int64_t>(right, 0), PaddingMode::circular);
}

Tensor pad_axis(const Tensor& x, int axis, int64_t left, int64_t right, PaddingMode mode) {
  const int64_t n = x.shape()[axis];
  if (left == 0 && right == 0) return x;
  if (mode == PaddingMode::circular && (left < 0 || right < 0))
    return crop_first(x, axis, left, right);
  check_pads(mode, left, right, n, x.shape());
  Shape shape = x.shape();
  shape[axis] = n + left + right;
  if (!is_float(x.dtype())) {
    if (x.numel() == 0) return reshape(x, shape);
    // Throws if there are too many elements, before it builds the list of indices.
    static_cast<void>(empty(shape, x.dtype()));
    std::vector<int64_t> index;
    for (int64_t i = -left; i < n + right; ++i) index.push_back(source(mode, i, n));
    return index_select(x, axis, tensor(index, {std::ssize(index)}));
  }
  return detail::map_axis("pad", x, axis, shape[axis], [&] {
    kernels::AxisMap map;
    map.in = n;
    for (int64_t i = -left; i < n + right; ++i) {
      map.add(source(mode, i, n), 1);
      map.next();
    }
    return map;
  });
}

}  // namespace

Tensor pad(const Tensor& x, const Dims& pads, PaddingMode mode) {
  if (mode == PaddingMode::zeros) return pad(x, pads, 0);
  Op op("pad", x);
  check_defined("pad", x);
  check(pads.size() % 2 == 0 && pads.size() <= 2 * x.ndim(),
        "pad: {} must be (before, after) pairs, at most one for each axis of shape {}", pads,
        x.shape());
  Tensor y = x;
  // Pads the first axes first, so that parts copied along them are not padded yet.
  for (int i = pads.size() - 2; i >= 0; i -= 2)
    y = pad_axis(y, x.ndim() - 1 - i / 2, pads[i], pads[i + 1], mode);
  if (y.ref()->storage == x.ref()->storage) y = clone(y);
  const bool crops = std::any_of(pads.begin(), pads.end(), [](int64_t n) { return n < 0; });
  if (mode != PaddingMode::circular && !crops)
    op.note("pads", pads, "reflects", mode == PaddingMode::reflect, "result", y);
  return y;
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, Scalar value) {
  check(!sequences.empty(), "pad_sequence: needs at least one sequence");
  int64_t longest = 0;
  for (const Tensor& x : sequences) {
    check(x.defined() && x.ndim() > 0, "pad_sequence: a sequence needs at least one axis, got {}",
          x.defined() ? to_string(x.shape()) : "an undefined tensor");
    longest = std::max(longest, x.size(0));
  }
  const Tensor& first = sequences[0];
  std::vector<Tensor> padded;
  for (const Tensor& x : sequences) {
    Shape fill = x.shape(), other = first.shape();
    fill[0] = other[0] = longest - x.size(0);
    check(fill == other && x.dtype() == first.dtype(),
          "pad_sequence: sequences may differ only in the length of axis 0, got {} {} and {} {}",
          first.dtype(), first.shape(), x.dtype(), x.shape());
    padded.push_back(fill[0] == 0 ? x : cat({x, new_full(x, fill, value)}));
  }
  return stack(padded);
}

}  // namespace tern
