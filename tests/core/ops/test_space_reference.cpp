// Convolutions, pooling, padding, interpolation, sampling at positions and short-time Fourier
// transforms against PyTorch's numbers, over combinations of their options
// (tests/reference/make_layers.py writes the files): values, positions and first derivatives in
// f64. The op table tests second derivatives, f32 and layouts.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/io/safetensors.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/grid_sample.h"
#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/fft/stft.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_space_reference {
namespace {

using test::close;

/// Reads the numbers of a case in order.
class Options {
 public:
  explicit Options(const Tensor& t) : v_(t.to_vector<double>()) {}
  double number() { return v_.at(at_++); }
  int64_t integer() { return static_cast<int64_t>(number()); }
  bool flag() { return number() != 0; }
  template <class Size>
  Size size() {
    if constexpr (std::is_same_v<Size, int64_t>) {
      return integer();
    } else if constexpr (std::is_same_v<Size, Size2>) {
      const int64_t height = integer();
      return {height, integer()};
    } else {
      const int64_t depth = integer(), height = integer();
      return {depth, height, integer()};
    }
  }
  Dims list(int n) {
    Dims d;
    for (int i = 0; i < n; ++i) d.push_back(integer());
    return d;
  }

 private:
  std::vector<double> v_;
  size_t at_ = 0;
};

Tensor wave(const Shape& shape, double seed) {
  std::vector<double> v(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(1.3 * static_cast<double>(i) + seed + 0.5);
  return tensor(v, shape);
}

std::vector<Tensor> inputs_of(const Tensor& shapes) {
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < shapes.size(0); ++i) {
    Shape shape;
    for (int64_t n : shapes[i].to_vector<int64_t>())
      if (n >= 0) shape.push_back(n);
    inputs.push_back(wave(shape, static_cast<double>(i)).set_requires_grad());
  }
  return inputs;
}

using Inputs = std::vector<Tensor>;
/// The op of a file. It maps inputs and options to a result, with positions if the op has them.
using Call = std::function<ValuesIndices(const Inputs&, Options)>;

void run_file(const std::string& name, const Call& call) {
  const SafeTensors file = load_safetensors(std::string(TERN_SOURCE_DIR) +
                                            "/tests/reference/layers/" + name + ".safetensors");
  int found = 0;
  for (const auto& entry : file.tensors) {
    const std::string& key = entry.first;
    const Tensor& options = entry.second;
    if (!key.ends_with(".options")) continue;
    const std::string id = key.substr(0, key.size() - 8);
    INFO(name, ", case ", id, ", options ", to_string(options));
    ++found;
    const Inputs x = inputs_of(file.find(id + ".shapes"));
    ValuesIndices got;
    REQUIRE_NOTHROW(got = call(x, Options(options)));
    CHECK(close(got.values, file.find(id + ".y"), 1e-10, 1e-11));
    if (const Tensor at = file.find(id + ".indices"); at.defined())
      CHECK(got.indices.to_vector<int64_t>() == at.to_vector<int64_t>());
    const Inputs d = grad({got.values}, x, {.gradients = {wave(got.values.shape(), 9)}});
    for (size_t i = 0; i < d.size(); ++i)
      CHECK_MESSAGE(close(d[i], file.find(id + ".d" + std::to_string(i)), 1e-10, 1e-11),
                    "gradient ", i);
  }
  CHECK(found > 10);
}

Tensor bias_of(const Inputs& x) { return x.size() > 2 ? x[2] : Tensor(); }

template <class Size>
ConvOptions<Size> conv_options(Options& o) {
  ConvOptions<Size> c;
  c.stride = o.size<Size>();
  c.padding = o.size<Size>();
  c.dilation = o.size<Size>();
  c.groups = o.integer();
  c.padding_mode = static_cast<PaddingMode>(o.integer());
  return c;
}

template <class Size>
ConvTransposeOptions<Size> transpose_options(Options& o) {
  ConvTransposeOptions<Size> c;
  c.stride = o.size<Size>();
  c.padding = o.size<Size>();
  c.output_padding = o.size<Size>();
  c.groups = o.integer();
  c.dilation = o.size<Size>();
  return c;
}

template <class Size>
MaxPoolOptions<Size> max_options(Options& o) {
  MaxPoolOptions<Size> p;
  p.kernel = o.size<Size>();
  p.stride = o.size<Size>();
  p.padding = o.size<Size>();
  p.dilation = o.size<Size>();
  p.ceil_mode = o.flag();
  return p;
}

template <class Size>
AvgPoolOptions<Size> avg_options(Options& o) {
  AvgPoolOptions<Size> p;
  p.kernel = o.size<Size>();
  p.stride = o.size<Size>();
  p.padding = o.size<Size>();
  p.ceil_mode = o.flag();
  p.count_include_pad = o.flag();
  if (const int64_t divisor = o.integer()) p.divisor_override = divisor;
  return p;
}

std::optional<int64_t> axis_size(Options& o) {
  const int64_t n = o.integer();
  return n < 0 ? std::nullopt : std::optional<int64_t>(n);
}

ValuesIndices values(const Tensor& t) { return {t, {}}; }

TEST_CASE("PyTorch's numbers: convolutions") {
  run_file("conv1d", [](const Inputs& x, Options o) {
    return values(conv1d(x[0], x[1], bias_of(x), conv_options<int64_t>(o)));
  });
  run_file("conv2d", [](const Inputs& x, Options o) {
    return values(conv2d(x[0], x[1], bias_of(x), conv_options<Size2>(o)));
  });
  run_file("conv3d", [](const Inputs& x, Options o) {
    return values(conv3d(x[0], x[1], bias_of(x), conv_options<Size3>(o)));
  });
}

TEST_CASE("PyTorch's numbers: transposed convolutions") {
  run_file("conv_transpose1d", [](const Inputs& x, Options o) {
    return values(conv_transpose1d(x[0], x[1], bias_of(x), transpose_options<int64_t>(o)));
  });
  run_file("conv_transpose2d", [](const Inputs& x, Options o) {
    return values(conv_transpose2d(x[0], x[1], bias_of(x), transpose_options<Size2>(o)));
  });
  run_file("conv_transpose3d", [](const Inputs& x, Options o) {
    return values(conv_transpose3d(x[0], x[1], bias_of(x), transpose_options<Size3>(o)));
  });
}

TEST_CASE("PyTorch's numbers: max_pool") {
  run_file("max_pool1d", [](const Inputs& x, Options o) {
    return max_pool1d_with_indices(x[0], max_options<int64_t>(o));
  });
  run_file("max_pool2d", [](const Inputs& x, Options o) {
    return max_pool2d_with_indices(x[0], max_options<Size2>(o));
  });
  run_file("max_pool3d", [](const Inputs& x, Options o) {
    return max_pool3d_with_indices(x[0], max_options<Size3>(o));
  });
}

TEST_CASE("PyTorch's numbers: avg_pool") {
  run_file("avg_pool1d", [](const Inputs& x, Options o) {
    return values(avg_pool1d(x[0], avg_options<int64_t>(o)));
  });
  run_file("avg_pool2d", [](const Inputs& x, Options o) {
    return values(avg_pool2d(x[0], avg_options<Size2>(o)));
  });
  run_file("avg_pool3d", [](const Inputs& x, Options o) {
    return values(avg_pool3d(x[0], avg_options<Size3>(o)));
  });
}

TEST_CASE("PyTorch's numbers: adaptive pooling") {
  run_file("adaptive_pool1d", [](const Inputs& x, Options o) {
    const auto length = axis_size(o);
    const OutputSize<1> size = length ? OutputSize<1>(*length) : OutputSize<1>(std::nullopt);
    return o.flag() ? adaptive_max_pool1d_with_indices(x[0], size)
                    : values(adaptive_avg_pool1d(x[0], size));
  });
  run_file("adaptive_pool2d", [](const Inputs& x, Options o) {
    const auto height = axis_size(o), width = axis_size(o);
    return o.flag() ? adaptive_max_pool2d_with_indices(x[0], {height, width})
                    : values(adaptive_avg_pool2d(x[0], {height, width}));
  });
  run_file("adaptive_pool3d", [](const Inputs& x, Options o) {
    const auto depth = axis_size(o), height = axis_size(o), width = axis_size(o);
    return o.flag() ? adaptive_max_pool3d_with_indices(x[0], {depth, height, width})
                    : values(adaptive_avg_pool3d(x[0], {depth, height, width}));
  });
}

TEST_CASE("PyTorch's numbers: interpolate") {
  for (int n : {1, 2, 3})
    run_file("interpolate" + std::to_string(n) + "d", [n](const Inputs& x, Options o) {
      InterpolateOptions i;
      i.mode = static_cast<Interpolation>(o.integer());
      i.size = o.list(n);
      if (i.size[0] == 0) i.size = {};
      std::vector<double> factors;
      for (int a = 0; a < n; ++a) factors.push_back(o.number());
      if (factors[0] != 0) i.scale_factor = factors;
      const int64_t align = o.integer();
      if (align >= 0) i.align_corners = align == 1;
      i.recompute_scale_factor = o.flag();
      i.antialias = o.flag();
      return values(interpolate(x[0], i));
    });
}

TEST_CASE("PyTorch's numbers: pad") {
  for (int n : {1, 2, 3})
    run_file("pad" + std::to_string(n) + "d", [n](const Inputs& x, Options o) {
      const auto mode = static_cast<PaddingMode>(o.integer());
      return values(pad(x[0], o.list(2 * n), mode));
    });
}

TEST_CASE("PyTorch's numbers: unfold and fold") {
  run_file("columns", [](const Inputs& x, Options o) {
    UnfoldOptions u{.kernel = o.size<Size2>()};
    u.dilation = o.size<Size2>();
    u.padding = o.size<Size2>();
    u.stride = o.size<Size2>();
    return values(o.flag() ? fold(x[0], {5, 6}, u) : unfold(x[0], u));
  });
}

TEST_CASE("PyTorch's numbers: grid_sample, affine_grid") {
  const Interpolation modes[] = {Interpolation::nearest, Interpolation::bilinear,
                                 Interpolation::bicubic};
  for (int n : {2, 3}) {
    run_file(fmt::format("grid_sample{}d", n), [&](const Inputs& x, Options o) {
      GridSampleOptions g;
      g.mode = modes[o.integer()];
      g.padding = static_cast<PaddingMode>(o.integer());
      g.align_corners = o.flag();
      return values(grid_sample(x[0], 1.7 * x[1], g));
    });
    run_file(fmt::format("affine_grid{}d", n), [n](const Inputs& x, Options o) {
      const Shape size = o.list(n + 2);
      return values(affine_grid(x[0], size, o.flag()));
    });
  }
}

TEST_CASE("PyTorch's numbers: stft, istft") {
  run_file("stft", [](const Inputs& x, Options o) {
    const int64_t n = o.integer();
    fft::StftOptions s{.hop = o.integer()};
    if (o.integer() > 0) s.window = x[1];
    s.center = o.flag();
    s.padding = static_cast<PaddingMode>(o.integer());
    s.normalized = o.flag();
    const bool inverse = o.flag();
    const int64_t length = o.integer();
    if (!inverse) return values(fft::stft(x[0], n, s));
    return values(fft::istft(x[0], n, s, length < 0 ? std::nullopt : std::optional(length)));
  });
}

}  // namespace
}  // namespace tern::test_space_reference
