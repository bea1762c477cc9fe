// Pillow's resampling (libImaging/Resample.c): filters as wide as a pixel of the smaller image,
// weights in fixed point, first across and then down, with bytes in between.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/data/images/detail/decode.h"

namespace tern::datasets {
namespace {

constexpr int kBits = 22;  // fraction bits of weights: 32 - 8 (a byte) - 2 (overshoot)
constexpr int64_t kMaxSide = 1 << 24;

double support_of(Filter filter) {
  switch (filter) {
    case Filter::bilinear:
      return 1;
    case Filter::bicubic:
      return 2;
  }
  fail_unhandled("Filter", filter);
}

double weight_of(Filter filter, double x) {
  x = std::abs(x);
  switch (filter) {
    case Filter::bilinear:
      return x < 1 ? 1 - x : 0;
    case Filter::bicubic: {  // Keys 1981 with a = -0.5
      constexpr double a = -0.5;
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
    }
  }
  fail_unhandled("Filter", filter);
}

// The pixels that one result pixel is computed from: `count` pixels from `first` on.
struct Taps {
  int64_t first, count;
  size_t weights;  // where its weights begin
};
struct Plan {
  std::vector<Taps> taps;
  std::vector<int32_t> weights;
};

Plan plan_axis(int64_t from, int64_t to, Filter filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0), support = support_of(filter) * stretch;
  Plan plan;
  std::vector<double> w;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale, inverse = 1 / stretch;
    const auto first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto last = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), from);
    w.clear();
    double sum = 0;
    for (int64_t x = first; x < last; ++x) {
      w.push_back(weight_of(filter, (static_cast<double>(x) - center + 0.5) * inverse));
      sum += w.back();
    }
    plan.taps.push_back({first, last - first, plan.weights.size()});
    for (double v : w) {
      const double share = (sum != 0 ? v / sum : v) * (1 << kBits);
      plan.weights.push_back(static_cast<int32_t>(share < 0 ? share - 0.5 : share + 0.5));
    }
  }
  return plan;
}

uint8_t to_byte(int64_t sum) {
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kBits, 0, 255));
}

Picture across(const Picture& x, int64_t width, Filter filter) {
  const Plan plan = plan_axis(x.width, width, filter);
  Picture y{x.height, width, std::vector<uint8_t>(static_cast<size_t>(3 * x.height * width))};
  for (int64_t row = 0; row < x.height; ++row) {
    uint8_t* out = y.row(row);
    for (const Taps& t : plan.taps) {
      int64_t sum[3] = {1 << (kBits - 1), 1 << (kBits - 1), 1 << (kBits - 1)};
      const uint8_t* in = x.row(row) + 3 * t.first;
      const int32_t* w = plan.weights.data() + t.weights;
      for (int64_t k = 0; k < t.count; ++k, in += 3)
        for (int c = 0; c < 3; ++c) sum[c] += int64_t{w[k]} * in[c];
      for (int c = 0; c < 3; ++c) *out++ = to_byte(sum[c]);
    }
  }
  return y;
}

Picture down(const Picture& x, int64_t height, Filter filter) {
  const Plan plan = plan_axis(x.height, height, filter);
  const int64_t bytes = 3 * x.width;
  Picture y{height, x.width, std::vector<uint8_t>(static_cast<size_t>(height * bytes))};
  std::vector<int64_t> sums(static_cast<size_t>(bytes));
  for (int64_t row = 0; row < height; ++row) {
    const Taps& t = plan.taps[static_cast<size_t>(row)];
    std::fill(sums.begin(), sums.end(), int64_t{1} << (kBits - 1));
    for (int64_t k = 0; k < t.count; ++k) {
      const uint8_t* in = x.row(t.first + k);
      const int64_t w = plan.weights[t.weights + static_cast<size_t>(k)];
      for (int64_t i = 0; i < bytes; ++i) sums[static_cast<size_t>(i)] += w * in[i];
    }
    uint8_t* out = y.row(row);
    for (int64_t i = 0; i < bytes; ++i) out[i] = to_byte(sums[static_cast<size_t>(i)]);
  }
  return y;
}

}  // namespace

Picture resize(const Picture& x, int64_t height, int64_t width, Filter filter) {
  detail::check_picture("resize", x);
  check(height > 0 && width > 0 && height <= kMaxSide && width <= kMaxSide,
        "resize: the new size is {} x {} pixels; each side must be 1 to {}", height, width,
        kMaxSide);
  if (width == x.width) return height == x.height ? x : down(x, height, filter);
  Picture y = across(x, width, filter);
  return height == x.height ? y : down(y, height, filter);
}

Picture resize_shorter(const Picture& x, int64_t size, Filter filter) {
  check(size > 0 && x.height > 0 && x.width > 0,
        "resize_shorter: cannot resize {} x {} pixels to a shorter side of {}; all three must be "
        "above 0",
        x.height, x.width, size);
  const int64_t shorter = std::min(x.height, x.width), longer = std::max(x.height, x.width);
  const auto other =
      static_cast<int64_t>(static_cast<double>(size * longer) / static_cast<double>(shorter));
  return x.height < x.width ? resize(x, size, other, filter) : resize(x, other, size, filter);
}

}  // namespace tern::datasets
