// Masks from lengths, keys, offsets, pairs and biases; the combination of two; the masked softmax.
#include "tern/nn/mask.h"

#include <algorithm>
#include <limits>

namespace tern::nn {
namespace {

Tensor both(const Tensor& a, const Tensor& b, Tensor (*join)(const Tensor&, const Tensor&)) {
  if (!a.defined()) return b;
  return b.defined() ? join(a, b) : a;
}

// Lengths (B) hold for every query when combined with lengths (B, T).
Tensor shorter(const Tensor& a, const Tensor& b) {
  check(a.size(0) == b.size(0) && (a.ndim() != b.ndim() || a.shape() == b.shape()),
        "Mask: lengths {} and {} differ in the number of examples or queries", a.shape(),
        b.shape());
  if (a.ndim() == b.ndim()) return minimum(a, b);
  return a.ndim() < b.ndim() ? minimum(unsqueeze(a, 1), b) : minimum(a, unsqueeze(b, 1));
}

}  // namespace

Mask Mask::lengths(const Tensor& lengths) {
  check(lengths.dtype() == DType::i64 && (lengths.ndim() == 1 || lengths.ndim() == 2),
        "Mask: lengths are i64 (B) or (B, T), got {} {}", lengths.dtype(), lengths.shape());
  Mask m;
  m.parts_.lengths = lengths;
  return m;
}

Mask Mask::lengths(const std::vector<int64_t>& lengths) {
  return Mask::lengths(tensor(lengths, static_cast<int64_t>(lengths.size())));
}

Mask Mask::keys(const Tensor& visible) {
  check(visible.ndim() == 2, "Mask: visible keys are (B, S), got {}", visible.shape());
  return allowed(unsqueeze(unsqueeze(visible, 1), 1));
}

Mask Mask::causal(int64_t offset, int64_t window) {
  check(window >= 0, "Mask: the window is {}; it must not be negative", window);
  Mask m;
  m.parts_.causal = offset;
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  if (window > 0) m.parts_.from = std::max(offset, kLeast + window) - window + 1;
  return m;
}

Mask Mask::allowed(const Tensor& pairs) {
  check(pairs.dtype() == DType::u8, "Mask: allowed pairs must be u8 (0 = hidden), got {}",
        pairs.dtype());
  Mask m;
  m.parts_.allowed = pairs;
  return m;
}

Mask Mask::bias(const Tensor& bias) {
  check(is_float(bias.dtype()),
        "Mask: a bias must be floating, got {}; give a u8 mask to Mask::allowed", bias.dtype());
  Mask m;
  m.parts_.bias = bias;
  return m;
}

Mask Mask::operator&(const Mask& other) const {
  const AttentionMask &a = parts_, &b = other.parts_;
  Mask m;
  m.parts_.lengths = both(a.lengths, b.lengths, shorter);
  m.parts_.allowed = both(a.allowed, b.allowed, logical_and);
  m.parts_.bias = both(a.bias, b.bias, add);
  m.parts_.causal = a.causal && b.causal ? std::min(a.causal, b.causal)
                    : a.causal           ? a.causal
                                         : b.causal;
  m.parts_.from = std::max(a.from, b.from);  // none is smaller than any
  return m;
}

Tensor Mask::dense(const Shape& scores) const {
  Tensor seen = seen_keys(parts_, scores);
  return seen.defined() ? expand(seen, scores) : seen;
}

Tensor Mask::softmax(const Tensor& scores) const {
  check(scores.ndim() == 3 || scores.ndim() == 4,
        "Mask: scores are (B, H, T, S) or (B, T, S), got {}", scores.shape());
  if (scores.ndim() == 3) return squeeze(softmax(unsqueeze(scores, 1)), 1);
  Tensor seen = dense(scores.shape());  // checks the mask
  const Tensor& b = parts_.bias;
  if (!b.defined()) return tern::softmax(scores, -1, seen);
  Tensor finite = masked_fill(b, eq(b.detach(), -std::numeric_limits<double>::infinity()), 0);
  return tern::softmax(scores + finite, -1, seen);
}

}  // namespace tern::nn
