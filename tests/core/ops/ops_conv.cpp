// conv1d, conv2d and pooling of planes against loops over every index; ties, NaN, threads, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tern/core/base/rng.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_conv {
namespace {

using test::Array, test::for_each_index, test::OpRow, test::run_rows;

int64_t output_size(int64_t n, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  return (n + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

Array naive_conv2d(const Array& x, const Array& w, const Array* b, const Conv2dOptions& o) {
  auto size = [&](int axis) {
    size_t i = static_cast<size_t>(axis);
    return output_size(x.shape[axis + 2], w.shape[axis + 2], o.stride[i], o.padding[i],
                       o.dilation[i]);
  };
  Array y({x.shape[0], w.shape[0], size(0), size(1)});
  const int64_t inputs = w.shape[1], outputs = w.shape[0] / o.groups;
  for_each_index(y.shape, [&](const Dims& at) {
    double sum = b ? (*b)[at[1]] : 0;
    for_each_index({inputs, w.shape[2], w.shape[3]}, [&](const Dims& k) {
      int64_t row = at[2] * o.stride[0] - o.padding[0] + k[1] * o.dilation[0];
      int64_t col = at[3] * o.stride[1] - o.padding[1] + k[2] * o.dilation[1];
      if (row < 0 || row >= x.shape[2] || col < 0 || col >= x.shape[3]) return;
      sum += x.at({at[0], at[1] / outputs * inputs + k[0], row, col}) *
             w.at({at[1], k[0], k[1], k[2]});
    });
    y.at(at) = sum;
  });
  return y;
}

OpRow conv_row(const char* name, const Shape& x, const Shape& w, const Conv2dOptions& options,
               bool bias = false) {
  OpRow row{name, {x, w}, {}, {}};
  if (bias) row.shapes.push_back(Dims(w[0]));
  row.fn = [=](const std::vector<Tensor>& in) {
    return conv2d(in[0], in[1], bias ? in[2] : Tensor(), options);
  };
  row.naive = [=](const std::vector<Array>& in) {
    return naive_conv2d(in[0], in[1], bias ? &in[2] : nullptr, options);
  };
  row.low = -1;
  row.high = 1.2;
  row.empty_shapes = row.shapes;
  row.empty_shapes[0][0] = 0;
  return row;
}

OpRow conv1d_row(const char* name, const Shape& x, const Shape& w, const Conv1dOptions& o) {
  OpRow row{name, {x, w, Dims(w[0])}, {}, {}};
  row.fn = [=](const std::vector<Tensor>& in) { return conv1d(in[0], in[1], in[2], o); };
  row.naive = [=](std::vector<Array> in) {
    in[0].shape.insert(2, 1);
    in[1].shape.insert(2, 1);
    Array y = naive_conv2d(in[0], in[1], &in[2],
                           {{1, o.stride}, {0, o.padding}, {1, o.dilation}, o.groups});
    y.shape.erase(2);
    return y;
  };
  row.empty_shapes = row.shapes;
  row.empty_shapes[0][0] = 0;
  return row;
}

TEST_CASE("op table: conv2d") {
  run_rows({
      conv_row("conv2d", {2, 3, 5, 4}, {4, 3, 3, 2}, {}, true),
      conv_row("conv2d, padding", {2, 2, 3, 4}, {3, 2, 3, 3}, {.padding = {1, 2}}),
      conv_row("conv2d, stride and padding", {2, 2, 5, 6}, {2, 2, 3, 3},
               {.stride = {2, 3}, .padding = {1, 0}}, true),
      conv_row("conv2d, dilation", {1, 2, 6, 5}, {2, 2, 2, 3},
               {.padding = {0, 1}, .dilation = {3, 2}}),
      conv_row("conv2d, only padding is seen", {1, 1, 1, 1}, {2, 1, 2, 2},
               {.stride = {3, 3}, .padding = {4, 4}}),
      conv_row("conv2d, groups", {2, 4, 3, 3}, {6, 2, 2, 2}, {.padding = {1, 1}, .groups = 2},
               true),
      conv_row("conv2d, depthwise", {2, 3, 4, 5}, {3, 1, 3, 3}, {.padding = {1, 1}, .groups = 3},
               true),
      conv_row("conv2d, depthwise, two outputs each", {2, 2, 5, 4}, {4, 1, 2, 3},
               {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}),
      conv_row("conv2d, depthwise, one pixel", {3, 2, 1, 1}, {2, 1, 5, 5},
               {.padding = {2, 2}, .groups = 2}, true),
      conv_row("conv2d, depthwise, stride over the kernel", {1, 2, 7, 6}, {2, 1, 2, 1},
               {.stride = {3, 2}, .padding = {1, 0}, .groups = 2}),
      conv_row("conv2d, depthwise, dilation", {2, 2, 5, 4}, {4, 1, 3, 2},
               {.padding = {2, 3}, .dilation = {2, 3}, .groups = 2}, true),
      conv_row("conv2d, patches", {2, 3, 4, 6}, {4, 3, 2, 3}, {.stride = {2, 3}}, true),
      conv_row("conv2d, patches of 4", {2, 2, 2, 8}, {3, 2, 2, 4}, {.stride = {2, 4}}),
      conv_row("conv2d, patches and a rest", {2, 1, 5, 7}, {3, 1, 2, 3}, {.stride = {2, 3}}),
      conv_row("conv2d, 1x1", {2, 3, 2, 3}, {4, 3, 1, 1}, {}, true),
      conv_row("conv2d, 1x1 with stride", {2, 3, 3, 4}, {2, 3, 1, 1}, {.stride = {2, 2}}),
      conv_row("conv2d, 1x1 with padding", {1, 2, 2, 2}, {2, 2, 1, 1}, {.padding = {1, 0}}, true),
  });
}

TEST_CASE("op table: conv1d") {
  run_rows({
      conv1d_row("conv1d", {2, 3, 6}, {4, 3, 3}, {}),
      conv1d_row("conv1d, options", {2, 4, 7}, {2, 2, 3},
                 {.stride = 2, .padding = 2, .dilation = 2, .groups = 2}),
      conv1d_row("conv1d, 1x1", {2, 3, 4}, {5, 3, 1}, {}),
      conv1d_row("conv1d, a signal", {2, 1, 50}, {16, 1, 9}, {.stride = 3, .padding = 2}),
      conv1d_row("conv1d, a signal, far apart", {2, 1, 120}, {16, 1, 50}, {.stride = 33}),
  });
}

/// The options of a pooling op. With ceil_mode, the last window may reach over the end.
struct Pool {
  Size2 kernel = 2, stride = 2, padding = 0, dilation = 1;
  bool ceil_mode = false;
};

int64_t windows_of(int64_t n, const Pool& p, size_t a) {
  const int64_t last = n + 2 * p.padding[a] - p.dilation[a] * (p.kernel[a] - 1) - 1;
  int64_t windows = last / p.stride[a] + 1;
  if (p.ceil_mode && last % p.stride[a] && windows * p.stride[a] < n + p.padding[a]) ++windows;
  return windows;
}

/// Every window's result is fn(its elements, the number of its positions in the padding).
Array naive_pool(const Array& x, const Pool& p,
                 const std::function<double(const std::vector<double>&, int64_t)>& fn) {
  Array y({x.shape[0], x.shape[1], windows_of(x.shape[2], p, 0), windows_of(x.shape[3], p, 1)});
  for_each_index(y.shape, [&](const Dims& at) {
    std::vector<double> seen;
    int64_t padding = 0;
    for_each_index({p.kernel[0], p.kernel[1]}, [&](const Dims& k) {
      int64_t from[2];
      bool inside = true, padded = true;
      for (int a = 0; a < 2; ++a) {
        const auto i = static_cast<size_t>(a);
        from[a] = at[a + 2] * p.stride[i] - p.padding[i] + k[a] * p.dilation[i];
        inside &= from[a] >= 0 && from[a] < x.shape[a + 2];
        padded &= from[a] < x.shape[a + 2] + p.padding[i];
      }
      if (inside) seen.push_back(x.at({at[0], at[1], from[0], from[1]}));
      padding += padded && !inside;
    });
    y.at(at) = fn(seen, padding);
  });
  return y;
}

OpRow max_row(const char* name, const Shape& x, const Pool& p) {
  OpRow row{name, {x}, {}, {}};
  row.fn = [=](const std::vector<Tensor>& in) {
    return max_pool2d(in[0], {p.kernel, p.stride, p.padding, p.dilation, p.ceil_mode});
  };
  row.naive = [=](const std::vector<Array>& in) {
    return naive_pool(in[0], p, [](const std::vector<double>& seen, int64_t) {
      return *std::max_element(seen.begin(), seen.end());
    });
  };
  return row;
}

OpRow avg_row(const char* name, const Shape& x, const Pool& p, bool count_include_pad = true,
              std::optional<int64_t> divisor = {}) {
  OpRow row{name, {x}, {}, {}};
  row.fn = [=](const std::vector<Tensor>& in) {
    return avg_pool2d(in[0],
                      {p.kernel, p.stride, p.padding, p.ceil_mode, count_include_pad, divisor});
  };
  row.naive = [=](const std::vector<Array>& in) {
    return naive_pool(in[0], p, [=](const std::vector<double>& seen, int64_t padding) {
      const int64_t counted = std::ssize(seen) + (count_include_pad ? padding : 0);
      return std::accumulate(seen.begin(), seen.end(), 0.0) /
             static_cast<double>(divisor.value_or(counted));
    });
  };
  return row;
}

TEST_CASE("op table: pooling") {
  run_rows({
      max_row("max_pool2d", {2, 3, 4, 6}, {}),
      max_row("max_pool2d, overlapping", {2, 2, 5, 5},
              {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}}),
      max_row("max_pool2d, dilated, over the end", {2, 2, 5, 6},
              {.kernel = 2,
               .stride = {3, 2},
               .padding = {1, 0},
               .dilation = {2, 1},
               .ceil_mode = true}),
      avg_row("avg_pool2d", {2, 3, 4, 6}, {}),
      avg_row("avg_pool2d, padding counts", {2, 2, 5, 4},
              {.kernel = {3, 3}, .stride = {2, 1}, .padding = {1, 1}}),
      avg_row("avg_pool2d, padding does not count", {2, 2, 5, 4},
              {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}}, false),
      avg_row("avg_pool2d, over the end", {2, 2, 6, 5},
              {.kernel = 3, .stride = 2, .padding = {0, 1}, .ceil_mode = true}),
      avg_row("avg_pool2d, a divisor", {2, 2, 4, 4}, {.kernel = 3, .stride = 1}, true, 5),
  });
}

TEST_CASE("max_pool2d: the first of equal elements gets the gradient, NaN spreads") {
  Tensor x = tensor({1, 1, 1, 1}, {1, 1, 2, 2}).set_requires_grad();
  max_pool2d(x).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{1, 0, 0, 0});
  CHECK(std::isnan(max_pool2d(tensor({5, test::kNan, 7, test::kNan}, {1, 1, 2, 2})).item()));
  CHECK(max_pool2d(tensor({-INFINITY, -INFINITY}, {1, 1, 1, 2}), {.kernel = {1, 2}}).item() ==
        -INFINITY);
}

// The result of a patch embedding is stored token by token, so the next op needs no copy.
TEST_CASE("conv2d: the tokens of a patch embedding are contiguous") {
  Rng rng(1);
  Tensor x = randn({2, 3, 8, 8}, rng), w = randn({5, 3, 4, 4}, rng);
  CHECK(transpose(flatten(conv2d(x, w, {}, {.stride = {4, 4}}), 2), 1, 2).is_contiguous());
}

TEST_CASE("conv2d: same bits on any number of threads") {
  Rng rng(2);
  struct Case {
    Shape x, w;
    Conv2dOptions options;
  };
  const Case cases[] = {{{3, 12, 33, 40}, {16, 12, 3, 3}, {.padding = {1, 1}}},
                        {{1, 3, 50, 50}, {8, 3, 3, 3}, {.stride = {2, 2}}},
                        {{2, 16, 30, 30}, {16, 1, 5, 5}, {.padding = {2, 2}, .groups = 16}},
                        {{4, 8, 20, 20}, {8, 4, 3, 3}, {.groups = 2}}};
  for (const Case& c : cases) {
    Tensor x = randn(c.x, rng).set_requires_grad(), w = randn(c.w, rng).set_requires_grad();
    test::check_threads({2, 4}, [&] {
      return test::value_and_gradients(conv2d(x, w, {}, c.options), {x, w});
    });
  }
}

TEST_CASE("conv2d: large enough for several blocks") {
  Rng rng(3);
  Tensor x = uniform({2, 24, 40, 36}, -1, 1, rng), w = uniform({20, 24, 3, 3}, -1, 1, rng);
  Conv2dOptions options{.padding = {1, 1}};
  Array want = naive_conv2d(test::to_array(x), test::to_array(w), nullptr, options);
  Array got = test::to_array(conv2d(x, w, {}, options));
  double worst = 0;
  for (int64_t i = 0; i < want.numel(); ++i)
    worst = std::max(worst, std::abs(got[i] - want[i]) / (1 + std::abs(want[i])));
  CHECK(worst < 1.3e-6 * std::sqrt(24 * 9.0));
}

TEST_CASE("conv2d: errors") {
  Tensor x = zeros({1, 4, 5, 5});
  CHECK_THROWS_WITH_AS(conv2d(x, zeros({2, 3, 2, 2})), doctest::Contains("has 4 channels"), Error);
  CHECK_THROWS_WITH_AS(conv2d(x, zeros({3, 2, 2, 2}), {}, {.groups = 2}),
                       doctest::Contains("3 outputs"), Error);
  CHECK_THROWS_WITH_AS(conv2d(x, zeros({2, 4, 6, 2})), doctest::Contains("larger than the input 5"),
                       Error);
  CHECK_THROWS_WITH_AS(conv2d(x, zeros({2, 4, 2, 2}), zeros({4})), doctest::Contains("bias"),
                       Error);
  CHECK_THROWS_WITH_AS(conv2d(x, zeros({2, 4, 2, 2}), {}, {.stride = {0, 1}}),
                       doctest::Contains("stride 0"), Error);
  CHECK_THROWS_WITH_AS(conv2d(zeros({4, 5, 5}), zeros({2, 4, 2, 2})), doctest::Contains("needs x"),
                       Error);
  CHECK_THROWS_WITH_AS(conv1d(zeros({1, 4, 5}), zeros({2, 3, 2})), doctest::Contains("conv1d"),
                       Error);
  CHECK_THROWS_WITH_AS(max_pool2d(x, {.padding = {2, 2}}), doctest::Contains("half"), Error);
}

}  // namespace
}  // namespace tern::ops_conv
