// Positions of max pooling against a naive search, for rows shorter and longer than a vector, with
// equal numbers and NaN.
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/ops.h"

namespace tern::test_pooling {
namespace {

/// One axis of a pooling.
struct Axis {
  int64_t size, kernel, stride, padding, dilation;
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  int64_t outputs() const { return (size + 2 * padding - reach()) / stride + 1; }
};

/// The position of the first largest element of a window, or of its first NaN.
int64_t naive(const std::vector<double>& plane, const Axis& h, const Axis& w, int64_t i,
              int64_t j) {
  int64_t best = -1;
  for (int64_t a = 0; a < h.kernel; ++a)
    for (int64_t b = 0; b < w.kernel; ++b) {
      const int64_t row = i * h.stride - h.padding + a * h.dilation;
      const int64_t column = j * w.stride - w.padding + b * w.dilation;
      if (row < 0 || row >= h.size || column < 0 || column >= w.size) continue;
      const int64_t at = row * w.size + column;
      if (best < 0) {
        best = at;
        continue;
      }
      const double v = plane[static_cast<size_t>(at)], old = plane[static_cast<size_t>(best)];
      if (v > old || (v != v && old == old)) best = at;
    }
  return best;
}

}  // namespace

TEST_CASE("max pooling: positions of any shape are those of a naive search") {
  std::mt19937 engine(1);
  auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  };
  auto axis = [&](int64_t most) {
    Axis a{draw(1, most), draw(1, 5), draw(1, 4), 0, draw(1, 2)};
    a.padding = draw(0, a.reach() / 2);
    return a;
  };
  int tried = 0;
  while (tried < 400) {
    const Axis h = axis(9), w = axis(70);
    // Where all elements of a window may be padding, max_pool2d refuses it.
    if (h.size + 2 * h.padding < h.reach() || w.size + 2 * w.padding < w.reach()) continue;
    std::vector<int64_t> expected;
    bool refused = false;
    std::vector<double> x(static_cast<size_t>(h.size * w.size));
    for (double& v : x)
      v = draw(0, 9) == 0 ? std::numeric_limits<double>::quiet_NaN()
                          : static_cast<double>(draw(-3, 3));
    for (int64_t i = 0; i < h.outputs(); ++i)
      for (int64_t j = 0; j < w.outputs(); ++j) {
        expected.push_back(naive(x, h, w, i, j));
        refused |= expected.back() < 0;
      }
    if (refused) continue;
    ++tried;
    CAPTURE(tried);
    for (const DType type : {DType::f32, DType::f64}) {
      const ValuesIndices got = max_pool2d_with_indices(tensor(x, {1, 1, h.size, w.size}).to(type),
                                                        {.kernel = {h.kernel, w.kernel},
                                                         .stride = {h.stride, w.stride},
                                                         .padding = {h.padding, w.padding},
                                                         .dilation = {h.dilation, w.dilation}});
      CHECK(got.indices.to_vector<int64_t>() == expected);
    }
  }
}

}  // namespace tern::test_pooling
