// Draws samples by weight in O(log n) with a binary tree of sums.
#include "tern/data/loading/weighted_sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tern/core/base/error.h"

namespace tern::datasets {
namespace {

// A binary tree of sums: node k has the children 2k and 2k + 1; the leaves are the weights.
// remove() adds up the sums again and never subtracts, so rounding cannot draw a weight of 0.
class WeightTree {
 public:
  explicit WeightTree(const std::vector<double>& weights)
      : leaves_(std::bit_ceil(weights.size())), sums_(2 * leaves_) {
    const auto largest = std::max_element(weights.begin(), weights.end());
    const double unit = largest == weights.end() ? 1 : *largest;  // no sum overflows
    for (size_t i = 0; i < weights.size(); ++i) {
      check(weights[i] >= 0 && std::isfinite(weights[i]),
            "weighted_sampler: weight {} is {}; it must be 0 or more, and finite", i, weights[i]);
      sums_[leaves_ + i] = unit > 0 ? weights[i] / unit : 0;
    }
    for (size_t k = leaves_ - 1; k > 0; --k) sums_[k] = sums_[2 * k] + sums_[2 * k + 1];
  }

  /// The number of weights above 0.
  int64_t above_zero() const {
    return std::count_if(sums_.begin() + static_cast<int64_t>(leaves_), sums_.end(),
                         [](double w) { return w > 0; });
  }
  /// REQUIRES: at least one weight is above 0.
  int64_t draw(Rng& rng) const {
    double rest = rng.uniform() * sums_[1];
    size_t k = 1;
    while (k < leaves_) {
      const double left = sums_[2 * k];
      const bool goes_left = rest < left || sums_[2 * k + 1] == 0;
      if (!goes_left) rest -= left;
      k = 2 * k + (goes_left ? 0 : 1);
    }
    return static_cast<int64_t>(k - leaves_);
  }
  void remove(int64_t sample) {
    size_t k = leaves_ + static_cast<size_t>(sample);
    sums_[k] = 0;
    while (k /= 2) sums_[k] = sums_[2 * k] + sums_[2 * k + 1];
  }

 private:
  size_t leaves_;
  std::vector<double> sums_;
};

}  // namespace

Sampler weighted_sampler(const std::vector<double>& weights, const WeightedSamplerOptions& o) {
  const WeightTree whole(weights);
  const int64_t n = o.num_samples > 0 ? o.num_samples : std::ssize(weights);
  check(o.num_samples >= 0, "weighted_sampler: {} samples; at least 1, or 0 for one per weight",
        o.num_samples);
  check(whole.above_zero() > 0, "weighted_sampler: none of the {} weights is above 0",
        weights.size());
  check(o.replacement || n <= whole.above_zero(),
        "weighted_sampler: {} samples without replacement, but {} of {} weights are above 0", n,
        whole.above_zero(), weights.size());
  const auto draw = [whole, n, replacement = o.replacement](Rng random) {
    WeightTree left = whole;
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t& sample : order) {
      sample = left.draw(random);
      if (!replacement) left.remove(sample);
    }
    return order;
  };
  return SizedSampler{std::ssize(weights), draw};
}

}  // namespace tern::datasets
