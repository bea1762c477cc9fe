// Convolution, padding, pooling and interpolation over one to three spatial axes, against naive
// loops. Combinations of their options are tested in test_space_reference.cpp.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_space {
namespace {

using test::op, test::Array, test::Arrays, test::for_each_index;
using Tensors = std::vector<Tensor>;

Dims with_front(const Dims& front, const Dims& rest) {
  Dims all = front;
  for (int64_t v : rest) all.push_back(v);
  return all;
}

Dims space_of(const Shape& s) { return {s.begin() + 2, s.end()}; }

/// The position of tap k of window `at` along every spatial axis.
struct Windows {
  Dims stride, padding, dilation;
  Dims operator()(const Dims& at, const Dims& k) const {
    Dims from;
    for (int a = 0; a < at.size(); ++a)
      from.push_back(at[a] * stride[a] - padding[a] + k[a] * dilation[a]);
    return from;
  }
};

bool inside(const Dims& at, const Dims& sizes) {
  for (int a = 0; a < at.size(); ++a)
    if (at[a] < 0 || at[a] >= sizes[a]) return false;
  return true;
}

/// Calls fn(sample, output channel, input channel, kernel channel) for every pair of channels that
/// a grouped convolution connects.
void each_channel(int64_t batch, const Shape& w, int64_t groups,
                  const std::function<void(int64_t, int64_t, int64_t, int64_t)>& fn) {
  const int64_t outputs = w[0] / groups;
  for_each_index({batch, w[0], w[1]},
                 [&](const Dims& i) { fn(i[0], i[1], i[1] / outputs * w[1] + i[2], i[2]); });
}

Array naive_conv(const Arrays& in, const Windows& windows, const Dims& out, int64_t groups) {
  const Array &x = in[0], &w = in[1];
  Array y(with_front({x.shape[0], w.shape[0]}, out));
  if (in.size() > 2) for_each_index(y.shape, [&](const Dims& at) { y.at(at) = in[2][at[1]]; });
  each_channel(x.shape[0], w.shape, groups, [&](int64_t n, int64_t o, int64_t c, int64_t part) {
    for_each_index(out, [&](const Dims& at) {
      for_each_index(space_of(w.shape), [&](const Dims& k) {
        const Dims from = windows(at, k);
        if (inside(from, space_of(x.shape)))
          y.at(with_front({n, o}, at)) +=
              x.at(with_front({n, c}, from)) * w.at(with_front({o, part}, k));
      });
    });
  });
  return y;
}

/// The transposed convolution: every input element adds to the outputs of its window.
Array naive_transpose(const Arrays& in, const Windows& windows, const Dims& out, int64_t groups) {
  const Array &x = in[0], &w = in[1];
  Array y(with_front({x.shape[0], w.shape[1] * groups}, out));
  if (in.size() > 2) for_each_index(y.shape, [&](const Dims& at) { y.at(at) = in[2][at[1]]; });
  each_channel(x.shape[0], w.shape, groups, [&](int64_t n, int64_t o, int64_t c, int64_t part) {
    for_each_index(space_of(x.shape), [&](const Dims& at) {
      for_each_index(space_of(w.shape), [&](const Dims& k) {
        const Dims to = windows(at, k);
        if (inside(to, out))
          y.at(with_front({n, c}, to)) +=
              x.at(with_front({n, o}, at)) * w.at(with_front({o, part}, k));
      });
    });
  });
  return y;
}

test::CheckedRow windows_op(const char* name, const std::vector<Shape>& shapes,
                            const std::function<Tensor(const Tensors&)>& fn) {
  std::vector<Shape> empty = shapes;
  empty[0][0] = 0;
  return {{.name = name,
           .shapes = shapes,
           .fn = fn,
           .naive = {},
           .low = -1,
           .high = 1.2,
           .empty_shapes = empty}};
}

TEST_CASE("op table: conv3d and padding modes") {
  windows_op("conv3d", {{2, 3, 3, 4, 3}, {2, 3, 2, 3, 2}, {2}}, [](const Tensors& x) {
    return conv3d(x[0], x[1], x[2], {.stride = {1, 2, 1}, .padding = {1, 1, 0}});
  }).equals([](const Arrays& x) {
    return naive_conv(x, {{1, 2, 1}, {1, 1, 0}, {1, 1, 1}}, {4, 2, 2}, 1);
  });
  windows_op("conv3d, depthwise, dilated", {{1, 2, 4, 3, 5}, {4, 1, 2, 2, 2}},
             [](const Tensors& x) {
               return conv3d(x[0], x[1], {}, {.dilation = {3, 1, 2}, .groups = 2});
             })
      .equals([](const Arrays& x) {
        return naive_conv(x, {{1, 1, 1}, {0, 0, 0}, {3, 1, 2}}, {1, 2, 3}, 2);
      });
  windows_op("conv3d, patches", {{2, 2, 2, 4, 3}, {3, 2, 2, 2, 3}, {3}}, [](const Tensors& x) {
    return conv3d(x[0], x[1], x[2], {.stride = {2, 2, 3}});
  }).equals([](const Arrays& x) {
    return naive_conv(x, {{2, 2, 3}, {0, 0, 0}, {1, 1, 1}}, {1, 2, 1}, 1);
  });
  windows_op("conv1d, circular", {{2, 2, 5}, {3, 2, 3}}, [](const Tensors& x) {
    return conv1d(x[0], x[1], {}, {.padding = 2, .padding_mode = PaddingMode::circular});
  }).equals([](const Arrays& x) {
    Array p(Shape{x[0].shape[0], 2, 9});
    for_each_index(p.shape, [&](const Dims& i) {
      p.at(i) = x[0].at({i[0], i[1], (i[2] + 3) % 5});
    });
    return naive_conv({p, x[1]}, {{1}, {0}, {1}}, {7}, 1);
  });
}

TEST_CASE("conv: same_padding keeps the sizes and puts an odd pad at the end") {
  Rng rng(3);
  const Tensor x = randn({2, 3, 5, 6}, rng, DType::f64), w = randn({2, 3, 4, 3}, rng, DType::f64);
  for (PaddingMode mode : {PaddingMode::zeros, PaddingMode::reflect, PaddingMode::circular}) {
    const Tensor y =
        conv2d(x, w, {}, {.dilation = {1, 2}, .padding_mode = mode, .same_padding = true});
    CHECK(y.shape() == Shape{2, 2, 5, 6});
    const Tensor want = conv2d(pad(x, {2, 2, 1, 2}, mode), w, {}, {.dilation = {1, 2}});
    CHECK(y.to_vector<double>() == want.to_vector<double>());
  }
  CHECK(conv1d(zeros({1, 1, 4}), zeros({1, 1, 2}), {}, {.same_padding = true}).size(2) == 4);
  CHECK_THROWS_WITH_AS(conv2d(x, w, {}, {.stride = 2, .same_padding = true}),
                       doctest::Contains("same_padding needs stride 1"), Error);
  CHECK_THROWS_WITH_AS(conv2d(x, w, {}, {.padding = 1, .same_padding = true}),
                       doctest::Contains("conv2d: same_padding"), Error);
}

TEST_CASE("op table: transposed convolutions") {
  windows_op("conv_transpose1d", {{2, 3, 4}, {3, 2, 3}, {2}}, [](const Tensors& x) {
    return conv_transpose1d(x[0], x[1], x[2], {.stride = 2, .padding = 1, .output_padding = 1});
  }).equals([](const Arrays& x) {
    return naive_transpose(x, {{2}, {1}, {1}}, {8}, 1);
  });
  windows_op("conv_transpose2d, groups, dilation", {{2, 4, 2, 3}, {4, 2, 2, 3}, {4}},
             [](const Tensors& x) {
               return conv_transpose2d(x[0], x[1], x[2],
                                       {.stride = {1, 2}, .groups = 2, .dilation = {2, 1}});
             })
      .equals([](const Arrays& x) {
        return naive_transpose(x, {{1, 2}, {0, 0}, {2, 1}}, {4, 7}, 2);
      });
  windows_op("conv_transpose2d, patches", {{2, 2, 3, 2}, {2, 3, 2, 2}, {3}}, [](const Tensors& x) {
    return conv_transpose2d(x[0], x[1], x[2], {.stride = 2});
  }).equals([](const Arrays& x) {
    return naive_transpose(x, {{2, 2}, {0, 0}, {1, 1}}, {6, 4}, 1);
  });
  windows_op(
      "conv_transpose2d, patches and a rest", {{1, 2, 2, 2}, {2, 1, 2, 3}},
      [](const Tensors& x) {
        return conv_transpose2d(x[0], x[1], {}, {.stride = {2, 3}, .output_padding = {1, 0}});
      })
      .equals([](const Arrays& x) {
        return naive_transpose(x, {{2, 3}, {0, 0}, {1, 1}}, {5, 6}, 1);
      });
  windows_op("conv_transpose3d, depthwise", {{1, 2, 2, 2, 3}, {2, 1, 2, 1, 3}},
             [](const Tensors& x) {
               return conv_transpose3d(x[0], x[1], {},
                                       {.stride = {2, 1, 1}, .padding = {0, 0, 1}, .groups = 2});
             })
      .equals([](const Arrays& x) {
        return naive_transpose(x, {{2, 1, 1}, {0, 0, 1}, {1, 1, 1}}, {4, 2, 3}, 2);
      });
}

TEST_CASE("op table: unfold and fold") {
  const Windows windows{{2, 1}, {1, 0}, {1, 2}};  // 2 x 3 windows of (3, 5), kernel (2, 2)
  const UnfoldOptions o{.kernel = 2, .dilation = {1, 2}, .padding = {1, 0}, .stride = {2, 1}};
  auto each = [windows](int64_t batch, const std::function<void(const Dims&, const Dims&)>& fn) {
    for_each_index({batch, 2, 2, 2, 2, 3}, [&](const Dims& i) {
      const Dims at = windows({i[4], i[5]}, {i[2], i[3]});
      if (inside(at, {3, 5}))
        fn({i[0], i[1], at[0], at[1]}, {i[0], i[1] * 4 + i[2] * 2 + i[3], i[4] * 3 + i[5]});
    });
  };
  windows_op("unfold", {{2, 2, 3, 5}}, [o](const Tensors& x) {
    return unfold(x[0], o);
  }).equals([each](const Arrays& x) {
    Array y(Shape{x[0].shape[0], 8, 6});
    each(x[0].shape[0], [&](const Dims& at, const Dims& to) { y.at(to) = x[0].at(at); });
    return y;
  });
  windows_op("fold", {{2, 8, 6}}, [o](const Tensors& x) {
    return fold(x[0], {3, 5}, o);
  }).equals([each](const Arrays& x) {
    Array y(Shape{x[0].shape[0], 2, 3, 5});
    each(x[0].shape[0], [&](const Dims& at, const Dims& to) { y.at(at) += x[0].at(to); });
    return y;
  });
}

TEST_CASE("op table: padding with elements") {
  auto check = [](const char* name, PaddingMode mode, const auto& from) {
    windows_op(name, {{2, 4, 3}}, [mode](const Tensors& x) {
      return pad(x[0], {2, 1, -1, 3}, mode);
    }).equals([from](const Arrays& x) {
      return test::picked(x[0], {x[0].shape[0], 6, 6}, [&](const Dims& i) {
        return Dims{i[0], from(i[1] + 1, 4), from(i[2] - 2, 3)};
      });
    });
  };
  windows_op("pad, circular", {{2, 3, 4}}, [](const Tensors& x) {
    return pad(x[0], {4, 2, 1, 0}, PaddingMode::circular);
  }).equals([](const Arrays& x) {
    return test::picked(x[0], {x[0].shape[0], 4, 10}, [&](const Dims& i) {
      return Dims{i[0], (i[1] + 2) % 3, i[2] % 4};
    });
  });
  check("pad, reflect", PaddingMode::reflect, [](int64_t i, int64_t n) {
    return i < 0 ? -i : i < n ? i : 2 * n - 2 - i;
  });
  check("pad, replicate", PaddingMode::replicate,
        [](int64_t i, int64_t n) { return std::clamp<int64_t>(i, 0, n - 1); });
}

/// The mean or the maximum of each window, where window i of m covers [floor(i n / m),
/// ceil((i + 1) n / m)) of an axis of size n.
Array naive_adaptive(const Array& x, const Dims& out, bool max) {
  Array y(with_front({x.shape[0], x.shape[1]}, out));
  for_each_index(y.shape, [&](const Dims& at) {
    Dims first, sizes;
    for (int a = 0; a < out.size(); ++a) {
      const auto n = static_cast<double>(x.shape[a + 2]), m = static_cast<double>(out[a]);
      const auto i = static_cast<double>(at[a + 2]);
      first.push_back(static_cast<int64_t>(std::floor(i * n / m)));
      sizes.push_back(static_cast<int64_t>(std::ceil((i + 1) * n / m)) - first[a]);
    }
    double sum = 0, most = -INFINITY;
    for_each_index(sizes, [&](const Dims& k) {
      Dims from{at[0], at[1]};
      for (int a = 0; a < k.size(); ++a) from.push_back(first[a] + k[a]);
      sum += x.at(from);
      most = std::max(most, x.at(from));
    });
    y.at(at) = max ? most : sum / static_cast<double>(numel(sizes));
  });
  return y;
}

TEST_CASE("op table: adaptive pooling") {
  auto check = [](const char* name, const Shape& x, const Dims& out, bool max,
                  std::function<Tensor(const Tensor&)> fn) {
    windows_op(name, {x}, [fn](const Tensors& in) {
      return fn(in[0]);
    }).equals([=](const Arrays& in) { return naive_adaptive(in[0], out, max); });
  };
  check("adaptive_avg_pool1d", {2, 3, 5}, {3}, false,
        [](const Tensor& x) { return adaptive_avg_pool1d(x, 3); });
  check("adaptive_avg_pool2d", {2, 2, 5, 4}, {3, 6}, false, [](const Tensor& x) {
    return adaptive_avg_pool2d(x, {3, 6});
  });
  check("adaptive_avg_pool2d, one", {2, 3, 3, 4}, {1, 1}, false,
        [](const Tensor& x) { return adaptive_avg_pool2d(x, 1); });
  check("adaptive_avg_pool3d", {1, 2, 3, 2, 4}, {2, 2, 3}, false, [](const Tensor& x) {
    return adaptive_avg_pool3d(x, {2, std::nullopt, 3});
  });
  check("adaptive_max_pool1d", {2, 3, 5}, {3}, true,
        [](const Tensor& x) { return adaptive_max_pool1d(x, 3); });
  check("adaptive_max_pool2d", {2, 2, 5, 4}, {3, 3}, true,
        [](const Tensor& x) { return adaptive_max_pool2d(x, 3); });
  check("adaptive_max_pool3d", {1, 2, 3, 2, 4}, {2, 2, 3}, true, [](const Tensor& x) {
    return adaptive_max_pool3d(x, {2, std::nullopt, 3});
  });
}

/// Linear interpolation between the two neighbours of every output.
Array naive_linear(const Array& x, int64_t out, bool align) {
  const int64_t n = x.shape[2];
  Array y(Shape{x.shape[0], x.shape[1], out});
  for_each_index(y.shape, [&](const Dims& at) {
    const auto i = static_cast<double>(at[2]);
    const double step = align ? static_cast<double>(n - 1) / static_cast<double>(out - 1)
                              : static_cast<double>(n) / static_cast<double>(out);
    const double p = align ? i * step : std::max(0.0, (i + 0.5) * step - 0.5);
    const auto low = std::min(static_cast<int64_t>(p), n - 1), high = std::min(low + 1, n - 1);
    const double t = p - static_cast<double>(low);
    y.at(at) = (1 - t) * x.at({at[0], at[1], low}) + t * x.at({at[0], at[1], high});
  });
  return y;
}

TEST_CASE("op table: interpolate and pixels") {
  auto nearest = [](const Arrays& x) {
    return test::picked(x[0], {x[0].shape[0], 2, 5, 2}, [](const Dims& i) {
      return Dims{i[0], i[1], i[2] * 3 / 5, i[3] * 4 / 2};
    });
  };
  windows_op("interpolate, nearest", {{2, 2, 3, 4}}, [](const Tensors& x) {
    return interpolate(x[0], {.size = {5, 2}});
  }).equals(nearest);
  windows_op("interpolate, linear", {{2, 2, 4}}, [](const Tensors& x) {
    return interpolate(x[0], {.size = 7, .mode = Interpolation::linear});
  }).equals([](const Arrays& x) { return naive_linear(x[0], 7, false); });
  windows_op("interpolate, corners aligned", {{2, 2, 5}}, [](const Tensors& x) {
    return interpolate(x[0], {.size = 3, .mode = Interpolation::linear, .align_corners = true});
  }).equals([](const Arrays& x) { return naive_linear(x[0], 3, true); });
  windows_op("pixel_shuffle", {{2, 8, 2, 3}}, [](const Tensors& x) {
    return pixel_shuffle(x[0], 2);
  }).equals([](const Arrays& x) {
    return test::picked(x[0], {x[0].shape[0], 2, 4, 6}, [](const Dims& i) {
      return Dims{i[0], i[1] * 4 + i[2] % 2 * 2 + i[3] % 2, i[2] / 2, i[3] / 2};
    });
  });
  windows_op("pixel_unshuffle", {{2, 2, 4, 6}}, [](const Tensors& x) {
    return pixel_unshuffle(x[0], 2);
  }).equals([](const Arrays& x) {
    return test::picked(x[0], {x[0].shape[0], 8, 2, 3}, [](const Dims& i) {
      return Dims{i[0], i[1] / 4, i[2] * 2 + i[1] % 4 / 2, i[3] * 2 + i[1] % 2};
    });
  });
}

TEST_CASE("ops on space: same bits on any number of threads") {
  Rng rng(2);
  struct Case {
    Shape x, w;
    std::function<Tensor(const Tensor&, const Tensor&)> fn;
  };
  const Case cases[] = {
      {{3, 8, 9, 16, 15},
       {12, 4, 3, 3, 3},
       [](const Tensor& x, const Tensor& w) {
         return conv3d(x, w, {}, {.padding = 1, .groups = 2});
       }},
      {{2, 9, 8, 16, 17},
       {9, 1, 3, 3, 3},
       [](const Tensor& x, const Tensor& w) {
         return conv3d(x, w, {}, {.stride = 2, .groups = 9});
       }},
      {{4, 24, 17, 20},
       {24, 16, 4, 4},
       [](const Tensor& x, const Tensor& w) {
         return conv_transpose2d(x, w, {}, {.stride = 2, .padding = 1});
       }},
      {{4, 24, 17, 20},
       {24, 16, 2, 2},
       [](const Tensor& x, const Tensor& w) { return conv_transpose2d(x, w, {}, {.stride = 2}); }},
      {{3, 16, 40, 50},
       {1},
       [](const Tensor& x, const Tensor& w) {
         const Tensor up = interpolate(
             x, {.scale_factor = {1.7, 0.6}, .mode = Interpolation::bicubic, .antialias = true});
         return w * adaptive_avg_pool2d(pad(up, {3, 2, 1, 4}, PaddingMode::reflect), {9, 31});
       }},
      {{3, 16, 40, 50},
       {1},
       [](const Tensor& x, const Tensor& w) {
         return w * adaptive_max_pool2d(max_pool2d(x, {.dilation = 2, .ceil_mode = true}), 7);
       }},
      {{3, 16, 40, 50},
       {1},
       [](const Tensor& x, const Tensor& w) {
         const UnfoldOptions o{.kernel = 3, .padding = 1, .stride = 2};
         return w * fold(square(unfold(x, o)), {40, 50}, o);
       }},
  };
  for (const Case& c : cases) {
    const Tensor x = randn(c.x, rng).set_requires_grad(), w = randn(c.w, rng).set_requires_grad();
    test::check_threads([&] { return test::value_and_gradients(c.fn(x, w), {x, w}); });
  }
}

TEST_CASE("pooling: NaN spreads, the first of equal elements gets the gradient") {
  const Tensor x = tensor({1, 1, 0, 1, test::kNan, 5, 1, 7, 2}, {1, 1, 3, 3}, DType::f64);
  CHECK(std::isnan(adaptive_max_pool2d(x, 1).item()));
  const ValuesIndices some = adaptive_max_pool2d_with_indices(slice(x, 2, 0, 2), {2, 1});
  CHECK(some.indices.to_vector<int64_t>() == std::vector<int64_t>{0, 4});
  const Tensor y = tensor({2, 3, 3, 1, 3, 3}, {1, 1, 2, 3}, DType::f64).set_requires_grad();
  adaptive_max_pool2d(y, 1).backward();
  CHECK(y.grad().to_vector<double>() == std::vector<double>{0, 1, 0, 0, 0, 0});
}

TEST_CASE("pad: integers, and the order of the pads") {
  const Tensor x = reshape(arange(0, 6), {2, 3});
  CHECK(pad(x, {2, 1}, PaddingMode::reflect).to_vector<int64_t>() ==
        std::vector<int64_t>{2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4});
  CHECK(pad(x, {0, 0, 1, 0}, PaddingMode::circular).to_vector<int64_t>() ==
        std::vector<int64_t>{3, 4, 5, 0, 1, 2, 3, 4, 5});
  CHECK(pad(x, {-1, 1}, PaddingMode::zeros).to_vector<int64_t>() ==
        std::vector<int64_t>{1, 2, 0, 4, 5, 0});
}

TEST_CASE("interpolate: a factor that keeps the size") {
  const Tensor x = reshape(arange(0, 4).to(DType::f32), {1, 1, 4});
  auto numbers = [](const Tensor& t) { return t.to_vector<double>(); };
  // With such a factor, PyTorch's nearest resamples one axis, but returns two axes unchanged.
  CHECK(numbers(interpolate(x, {.scale_factor = 1.1})) == std::vector<double>{0, 0, 1, 2});
  CHECK(numbers(interpolate(unsqueeze(x, 2), {.scale_factor = {1, 1.1}})) == numbers(x));
  // Its nearest_exact resamples in every case, also beside an axis that grows.
  const Interpolation exact = Interpolation::nearest_exact;
  const std::vector<double> shifted = {0, 1, 2, 2};
  CHECK(numbers(interpolate(x, {.scale_factor = 1.24, .mode = exact})) == shifted);
  const Tensor plane = unsqueeze(x, 2);
  CHECK(numbers(interpolate(plane, {.scale_factor = {1, 1.24}, .mode = exact})) == shifted);
  CHECK(numbers(interpolate(plane, {.scale_factor = {2, 1.24}, .mode = exact})) ==
        std::vector<double>{0, 1, 2, 2, 0, 1, 2, 2});
  CHECK(numbers(interpolate(plane, {.scale_factor = 1, .mode = exact})) == numbers(x));
  CHECK(numbers(interpolate(x, {.scale_factor = 1.1, .recompute_scale_factor = true})) ==
        numbers(x));
}

TEST_CASE("interpolate: an infinity reaches only outputs in which it has a weight") {
  Tensor x = zeros({1, 1, 1, 9});
  mul_(select(x, 3, 8), 0);
  add_(select(x, 3, 8), full({}, INFINITY));
  const Tensor y =
      interpolate(x, {.size = {2, 5}, .mode = Interpolation::bilinear, .align_corners = true});
  CHECK(y.to_vector<double>() == std::vector<double>{0, 0, 0, 0, INFINITY, 0, 0, 0, 0, INFINITY});
}

TEST_CASE("ops on space: errors name the op, the rule and a way out") {
  auto says = [](const char* words, const std::function<void()>& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(words), Error);
  };
  const Tensor x = zeros({1, 4, 5, 6}), w = zeros({4, 2, 3, 3});
  says("conv_transpose2d: output_padding 2 must be less than stride 2 or dilation 1",
       [&] { return conv_transpose2d(x, w, {}, {.stride = 2, .output_padding = 2}); });
  says("conv_transpose2d: the input (1, 4, 5, 6) has 4 channels, but the weight (2, 4, 3, 3)", [&] {
    return conv_transpose2d(x, zeros({2, 4, 3, 3}));
  });
  says("conv_transpose2d: 4 channels cannot be split into 3 groups",
       [&] { return conv_transpose2d(x, w, {}, {.groups = 3}); });
  says("conv_transpose2d: the bias must be (4,)",
       [&] { return conv_transpose2d(x, w, zeros({2}), {.groups = 2}); });
  says("conv_transpose2d: padding 9 leaves no output",
       [&] { return conv_transpose2d(x, w, {}, {.padding = 9}); });
  says("conv3d: needs x (batch, in, depth, height, width)", [&] { return conv3d(x, w); });
  says("got (4, 5, 6) and (4, 2, 3, 3); unsqueeze(x, 0) makes a batch of one",
       [&] { return conv2d(x[0], w); });
  says("takes 6 each; channels are the second axis: move them by permute()", [&] {
    return conv2d(x, zeros({2, 6, 3, 3}));
  });
  says("reflect takes at most 4 on each side of an axis of 5", [&] {
    return conv2d(x, zeros({1, 4, 1, 1}), {}, {.padding = 5, .padding_mode = PaddingMode::reflect});
  });
  says("pad: circular takes at most 6", [&] { return pad(x, {7, 0}, PaddingMode::circular); });
  says("pad: replicate has nothing to repeat", [&] {
    return pad(zeros({2, 0}), {1, 1}, PaddingMode::replicate);
  });
  says("max_pool2d: padding 3 is more than half", [&] { return max_pool2d(x, {.padding = 3}); });
  says("max_pool2d: window 0 of an axis of 1 contains only padding", [&] {
    return max_pool2d(zeros({1, 1, 1, 1}), {.padding = 2, .dilation = 3});
  });
  says(
      "max_pool2d: the input must be (batch, channels, height, width), got (4, 5, 6); if it "
      "has no batch axis, give unsqueeze(x, 0)",
      [&] {
        return max_pool2d(zeros({4, 5, 6}));
      });
  says("avg_pool2d: divisor_override must not be 0",
       [&] { return avg_pool2d(x, {.divisor_override = 0}); });
  says("adaptive_avg_pool2d: the size of the output must not be negative",
       [&] { return adaptive_avg_pool2d(x, -2); });
  says("interpolate: needs either size or scale_factor", [&] { return interpolate(x, {}); });
  says("interpolate: needs either", [&] { return interpolate(x, {.size = 2, .scale_factor = 2}); });
  says("interpolate: bilinear is for 2 spatial axes", [&] {
    return interpolate(zeros({1, 2, 3}), {.size = 2, .mode = Interpolation::bilinear});
  });
  says("align_corners is for linear",
       [&] { return interpolate(x, {.size = 2, .align_corners = false}); });
  says("antialias is for bilinear and bicubic",
       [&] { return interpolate(x, {.size = 2, .antialias = true}); });
  says("recompute_scale_factor needs scale_factor",
       [&] { return interpolate(x, {.size = 2, .recompute_scale_factor = true}); });
  says("3 sizes or factors for 2 spatial axes", [&] {
    return interpolate(x, {.size = {1, 2, 3}});
  });
  says("scale_factor 0.1 gives 0 elements", [&] { return interpolate(x, {.scale_factor = 0.1}); });
  says("pixel_shuffle: 4 channels are not divisible by 3 * 3", [&] { return pixel_shuffle(x, 3); });
  says("pixel_unshuffle: the planes of (1, 4, 5, 6) are not divisible by 2",
       [&] { return pixel_unshuffle(x, 2); });
  says("fold: an output of (4, 4) with these options has 3 x 3 = 9 windows", [&] {
    return fold(zeros({1, 8, 8}), {4, 4}, {.kernel = 2});
  });
  says("fold: needs x (batch, channels * 4 kernel elements, windows)", [&] {
    return fold(zeros({1, 6, 9}), {4, 4}, {.kernel = 2});
  });
  says("unfold: a kernel of 7", [&] { return unfold(x, {.kernel = 7}); });
}

}  // namespace
}  // namespace tern::ops_space
