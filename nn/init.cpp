// Initial values of weights: Xavier, Kaiming, truncated normal, orthogonal (Gram-Schmidt), dirac,
// and whitening filters from eigenvectors of image patches.
#include "tern/nn/init.h"

#include <cmath>
#include <optional>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/linalg/linalg.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::nn::init {
namespace {

double fan_of(const Tensor& w, Fan fan) {
  Fans f = fans(w.shape());
  return static_cast<double>(std::max<int64_t>(fan == Fan::in ? f.in : f.out, 1));
}

double xavier_std(const Tensor& w, double gain) {
  Fans f = fans(w.shape());
  return gain * std::sqrt(2.0 / static_cast<double>(std::max<int64_t>(f.in + f.out, 1)));
}

double kaiming_std(const Tensor& w, const KaimingOptions& o) {
  return gain(o.nonlinearity, o.a) / std::sqrt(fan_of(w, o.fan));
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

using Rows = std::vector<std::vector<double>>;

// Gram-Schmidt, twice per row: the second time removes what rounding left of earlier rows.
void orthonormalize(Rows& rows, Rng& rng) {
  for (size_t i = 0; i < rows.size(); ++i) {
    double length = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t j = 0; j < i; ++j) {
        double dot = 0;
        for (size_t k = 0; k < rows[i].size(); ++k) dot += rows[i][k] * rows[j][k];
        for (size_t k = 0; k < rows[i].size(); ++k) rows[i][k] -= dot * rows[j][k];
      }
      length = 0;
      for (double v : rows[i]) length += v * v;
      length = std::sqrt(length);
      // Draws a row again if it is in the span of the others (practically never).
      if (length < 1e-8) {
        rng.fill_normal(rows[i].data(), static_cast<int64_t>(rows[i].size()));
        pass = -1;
        continue;
      }
      for (double& v : rows[i]) v /= length;
    }
  }
}

// E[p p^T] over all patches p (C KH KW) of the images, in f64.
Tensor second_moments(const Tensor& images, Size2 kernel) {
  constexpr int64_t kAtOnce = 64;  // images; their patches take up to KH KW times the memory
  const int64_t size = images.size(1) * kernel[0] * kernel[1];
  Tensor sum = zeros({size, size}, DType::f64);
  int64_t patches = 0;
  for (int64_t i = 0; i < images.size(0); i += kAtOnce) {
    const Tensor some = narrow(images, 0, i, std::min(kAtOnce, images.size(0) - i));
    const Tensor p = unfold(some.to(DType::f64), {.kernel = kernel});  // (b, n, patches)
    sum = sum + tern::sum(matmul(p, transpose(p, 1, 2)), 0);
    patches += p.size(0) * p.size(2);
  }
  return sum / static_cast<double>(patches);
}

}  // namespace

void constant(const Tensor& w, double value) {
  NoGradGuard no_grad;
  fill_(w, value);
}

void uniform(const Tensor& w, double low, double high, Rng& rng) {
  NoGradGuard no_grad;
  copy_(w, tern::uniform(w.shape(), low, high, rng, w.dtype()));
}

void normal(const Tensor& w, double mean, double std, Rng& rng) {
  NoGradGuard no_grad;
  copy_(w, randn(w.shape(), rng, w.dtype()) * std + mean);
}

void trunc_normal(const Tensor& w, Rng& rng, const TruncNormalOptions& o) {
  check(o.std >= 0, "trunc_normal: the standard deviation must not be negative, got {}", o.std);
  check(o.low < o.high, "trunc_normal: the bounds [{}, {}] must rise", o.low, o.high);
  double inside = normal_cdf((o.high - o.mean) / o.std) - normal_cdf((o.low - o.mean) / o.std);
  check(inside >= 0.01,
        "trunc_normal: the range [{}, {}] has a probability of only {:.2g} under N({}, {}^2); "
        "widen it or use uniform",
        o.low, o.high, inside, o.mean, o.std);
  NoGradGuard no_grad;
  const Tensor values = empty(w.shape(), DType::f64);
  double* const x = values.mutable_data<double>();
  rng.fill_normal(x, w.numel(), o.mean, o.std);
  // One part, since each draw depends on the one before. A ShapeOnlyScope skips the loop.
  parallel_for(1, 1, [&](int64_t, int64_t) {
    for (int64_t i = 0; i < w.numel(); ++i)
      while (x[i] < o.low || x[i] > o.high) x[i] = o.mean + o.std * rng.normal();
  });
  copy_(w, values);
}

void xavier_uniform(const Tensor& w, Rng& rng, double gain) {
  double bound = std::sqrt(3.0) * xavier_std(w, gain);
  uniform(w, -bound, bound, rng);
}

void xavier_normal(const Tensor& w, Rng& rng, double gain) {
  normal(w, 0, xavier_std(w, gain), rng);
}

void kaiming_uniform(const Tensor& w, Rng& rng, const KaimingOptions& options) {
  double bound = std::sqrt(3.0) * kaiming_std(w, options);
  uniform(w, -bound, bound, rng);
}

void kaiming_normal(const Tensor& w, Rng& rng, const KaimingOptions& options) {
  normal(w, 0, kaiming_std(w, options), rng);
}

double gain(Nonlinearity nonlinearity, double a) {
  switch (nonlinearity) {
    case Nonlinearity::tanh:
      return 5.0 / 3.0;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2.0 / (1.0 + a * a));
    case Nonlinearity::selu:
      return 0.75;
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1;
  }
  fail_unhandled("Nonlinearity", nonlinearity);
}

void orthogonal(const Tensor& w, Rng& rng, double gain) {
  check(w.ndim() >= 2, "orthogonal: needs at least two axes, the shape is {}", w.shape());
  if (w.numel() == 0) return;
  int64_t m = w.size(0), n = w.numel() / m;
  Rows rows(static_cast<size_t>(std::min(m, n)));
  for (auto& row : rows) {
    row.resize(static_cast<size_t>(std::max(m, n)));
    rng.fill_normal(row.data(), static_cast<int64_t>(row.size()));
  }
  NoGradGuard no_grad;
  const Tensor values = empty(w.shape(), DType::f64);
  double* const x = values.mutable_data<double>();
  // One part. A ShapeOnlyScope skips the loop, where rows of zeros would be drawn again forever.
  parallel_for(1, 1, [&](int64_t, int64_t) {
    orthonormalize(rows, rng);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        auto row = static_cast<size_t>(m <= n ? i : j),
             column = static_cast<size_t>(m <= n ? j : i);
        x[i * n + j] = gain * rows[row][column];
      }
    }
  });
  copy_(w, values);
}

void dirac(const Tensor& w, int64_t groups) {
  check(w.ndim() >= 3 && w.ndim() <= 5, "dirac: needs a weight (O, I, k...), the shape is {}",
        w.shape());
  check(groups > 0 && w.size(0) % groups == 0, "dirac: {} groups do not divide {} channels", groups,
        w.size(0));
  NoGradGuard no_grad;
  fill_(w, 0);
  const int64_t outputs = w.size(0) / groups, same = std::min(outputs, w.size(1));
  Tensor middle = w;
  while (middle.ndim() > 2) middle = select(middle, 2, middle.size(2) / 2);  // (O, I)
  for (int64_t g = 0; g < groups; ++g)
    fill_(diagonal(narrow(narrow(middle, 0, g * outputs, same), 1, 0, same)), 1);
}

void whitening(const Tensor& w, const Tensor& images, double eps) {
  check(w.ndim() == 4 && w.size(0) == 2 * w.size(1) * w.size(2) * w.size(3),
        "whitening: needs a weight (2 C KH KW, C, KH, KW), the shape is {}", w.shape());
  check(images.ndim() == 4 && images.size(0) > 0 && images.size(1) == w.size(1) &&
            images.size(2) >= w.size(2) && images.size(3) >= w.size(3),
        "whitening: needs images (B, {}, H, W) of at least {} x {}, the shape is {}", w.size(1),
        w.size(2), w.size(3), images.shape());
  NoGradGuard no_grad;
  const auto [values, vectors] = linalg::eigh(second_moments(images, {w.size(2), w.size(3)}));
  Tensor filters =
      flip(transpose(vectors / sqrt(clamp(values, 0, std::nullopt) + eps), 0, 1), {0});  // in rows
  const Tensor largest = gather(filters, 1, argmax(abs(filters), 1, true));
  filters = where(lt(largest, 0), -filters, filters);
  check(!any(logical_not(isfinite(filters))).item<bool>(),
        "whitening: the patches do not vary in some direction, so with eps {} its filter is not "
        "finite; use a larger eps",
        eps);
  copy_(w, reshape(cat({filters, -filters}, 0), w.shape()));
}

Fans fans(const Shape& shape) {
  check(shape.size() >= 2, "init: fans need a weight of two or more axes, the shape is {}", shape);
  auto fan = [&](int axis) {
    int64_t product = shape[axis];
    for (int i = 2; i < shape.size(); ++i) product = checked_product("init", product, shape[i]);
    return product;
  };
  return {fan(1), fan(0)};
}

}  // namespace tern::nn::init
