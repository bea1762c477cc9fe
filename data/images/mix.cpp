// Mixup and CutMix, and the Beta distribution that they draw from: the parts of augment.h for
// batches.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/core/tape/record.h"
#include "tern/data/images/augment.h"

namespace tern::datasets {
namespace {

// log of a Gamma(shape, 1) variate: Marsaglia and Tsang, "A Simple Method for Generating Gamma
// Variables" (2000); below 1 by Gamma(a) = Gamma(a + 1) U^(1/a). In logarithms, since for small a
// the variate is below the smallest double.
double log_gamma_variate(double shape, Rng& rng) {
  if (shape < 1) {
    const double u = 1 - rng.uniform();
    return log_gamma_variate(shape + 1, rng) + std::log(u) / shape;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = rng.normal(), t = 1 + c * x, v = t * t * t;
    if (t <= 0) continue;
    if (std::log(1 - rng.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d * v);
  }
}

// Calls mix(i, partner) for every image and the next one. Images change in order, so each partner
// is still unchanged; a copy of the first image serves the last.
template <class Mix>
void with_next(float* images, int64_t n, int64_t size, Mix mix) {
  const std::vector<float> first(images, images + size);
  for (int64_t i = 0; i < n; ++i)
    mix(images + i * size, i + 1 < n ? images + (i + 1) * size : first.data());
}

void mixup(float* images, int64_t n, int64_t size, double lambda) {
  with_next(images, n, size, [=](float* x, const float* next) {
    simd([=, a = static_cast<float>(lambda), b = static_cast<float>(1 - lambda)] {
      for (int64_t j = 0; j < size; ++j) x[j] = a * x[j] + b * next[j];
    });
  });
}

// Replaces a rectangle of 1 - lambda of the area around a random point, clipped at the borders;
// returns the remaining share.
double cutmix(float* images, const Shape& shape, double lambda, Rng& rng) {
  const int64_t channels = shape[1], height = shape[2], width = shape[3];
  const double half = 0.5 * std::sqrt(1 - lambda);
  auto range = [&](int64_t size) {
    const int64_t centre = rng.below(size);
    const auto reach = static_cast<int64_t>(half * static_cast<double>(size));
    return std::pair(std::max<int64_t>(centre - reach, 0), std::min(centre + reach, size));
  };
  const auto [top, bottom] = range(height);
  const auto [left, right] = range(width);
  with_next(
      images, shape[0], channels * height * width,
      [&, left = left, right = right, top = top, bottom = bottom](float* x, const float* next) {
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t y = top; y < bottom; ++y) {
            const int64_t line = (c * height + y) * width;
            std::copy(next + line + left, next + line + right, x + line + left);
          }
      });
  return 1 -
         static_cast<double>((bottom - top) * (right - left)) / static_cast<double>(height * width);
}

}  // namespace

double sample_beta(double alpha, Rng& rng) {
  check(alpha > 0 && std::isfinite(alpha), "sample_beta: alpha must be above 0 and finite, got {}",
        alpha);
  const double x = log_gamma_variate(alpha, rng), y = log_gamma_variate(alpha, rng);
  return 1 / (1 + std::exp(y - x));
}

double mix_images(const Tensor& images, const MixOptions& options, Rng& rng) {
  check(images.ndim() == 4 && images.is_contiguous(),
        "mix_images: needs contiguous images (B, C, H, W), the shape is {}", images.shape());
  check(options.mixup >= 0 && options.cutmix >= 0,
        "mix_images: alpha must not be negative: mixup {}, cutmix {}", options.mixup,
        options.cutmix);
  if (!options.on() || images.numel() == 0) return 1;
  float* data = images.mutable_data<float>();
  const bool coin = rng.next_u32() & 1;
  if (options.cutmix == 0 || (options.mixup > 0 && coin)) {
    const double lambda = sample_beta(options.mixup, rng);
    mixup(data, images.size(0), images.numel() / images.size(0), lambda);
    return lambda;
  }
  return cutmix(data, images.shape(), sample_beta(options.cutmix, rng), rng);
}

Tensor mix_targets(const Tensor& labels, int64_t classes, double lambda) {
  check(labels.ndim() == 1 && labels.is_contiguous(),
        "mix_targets: needs contiguous labels (B,), the shape is {}", labels.shape());
  const int64_t n = labels.size(0);
  Fresh targets({n, classes}, DType::f32);
  const int64_t* label = labels.data<int64_t>();
  float* out = targets.data<float>();
  std::fill(out, out + n * classes, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    check(label[i] >= 0 && label[i] < classes,
          "mix_targets: label {} at row {}, but there are {} classes", label[i], i, classes);
  }
  for (int64_t i = 0; i < n; ++i) {
    out[i * classes + label[i]] += static_cast<float>(lambda);
    out[i * classes + label[(i + 1) % n]] += static_cast<float>(1 - lambda);
  }
  return not_differentiable(targets);
}

}  // namespace tern::datasets
