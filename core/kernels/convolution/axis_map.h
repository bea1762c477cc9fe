// Linear maps along one axis (interpolation, adaptive means, padding): each output is a weighted
// sum of a few inputs. Inside of core only.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::kernels {

/// out[i] = sum of weight[k] * in[index[k]] for starts[i] <= k < starts[i + 1].
struct AxisMap {
  int64_t in = 0;
  std::vector<int64_t> starts = {0};
  std::vector<int64_t> index;
  std::vector<double> weight;

  int64_t out() const { return static_cast<int64_t>(starts.size()) - 1; }
  /// Adds a term to the current output, unless its weight is 0.
  void add(int64_t from, double w) {
    if (w == 0) return;
    index.push_back(from);
    weight.push_back(w);
  }
  /// Ends the current output.
  void next() { starts.push_back(static_cast<int64_t>(index.size())); }
  /// The map of the gradient: in[j] = sum of weight * out[i].
  AxisMap transposed() const;
};

/// x (outer, map.in, inner) -> y (outer, map.out(), inner), contiguous.
template <class T>
void map_axis(const AxisMap& map, int64_t outer, int64_t inner, const T* x, T* y);

}  // namespace tern::kernels
