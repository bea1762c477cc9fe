// check_module on the layers for one to three spatial axes, and on the parametrizations.
#include <doctest/doctest.h>

#include <functional>

#include "tern/core/base/rng.h"
#include "tern/nn/nn.h"

namespace tern::test_check_space_layers {
namespace {

const nn::CheckModuleOptions kMixes = {.batch = nn::BatchRule::mixed_in_training};

uint64_t seed = 0;

template <class Make>
void check_layer(const char* name, const Shape& shape, Make make,
                 const nn::CheckModuleOptions& options = {}) {
  CAPTURE(name);
  Rng rng(++seed);
  const auto layer = make(rng);
  CHECK_NOTHROW(nn::check_module(layer, {randn(shape, rng)}, options));
}

TEST_CASE("check_module: convolutions over one to three axes") {
  using namespace nn;
  check_layer("Conv3d", {2, 2, 3, 4, 3}, [](Rng& r) {
    return Conv3d(2, 4, 2, r, {.stride = {1, 2, 1}, .groups = 2});
  });
  check_layer("Conv2d, reflect", {2, 2, 4, 5}, [](Rng& r) {
    return Conv2d(2, 3, 3, r, {.padding = 1, .padding_mode = PaddingMode::reflect});
  });
  check_layer("Conv1d, circular", {2, 2, 5}, [](Rng& r) {
    return Conv1d(2, 3, 3, r, {.padding = 1, .padding_mode = PaddingMode::circular});
  });
  check_layer("ConvTranspose1d", {2, 4, 5},
              [](Rng& r) { return ConvTranspose1d(4, 2, 3, r, {.stride = 2, .groups = 2}); });
  check_layer("ConvTranspose2d", {2, 3, 3, 4}, [](Rng& r) {
    return ConvTranspose2d(3, 2, 3, r, {.stride = 2, .padding = 1, .output_padding = 1});
  });
  check_layer("ConvTranspose2d of patches", {2, 3, 3, 2},
              [](Rng& r) { return ConvTranspose2d(3, 2, 2, r, {.stride = 2}); });
  check_layer("ConvTranspose3d", {2, 2, 2, 3, 2},
              [](Rng& r) { return ConvTranspose3d(2, 3, 2, r, {}, Bias::no); });
}

TEST_CASE("check_module: norms, dropout and activations") {
  using namespace nn;
  check_layer(
      "BatchNorm1d", {4, 3}, [](Rng&) { return BatchNorm1d(3); }, kMixes);
  check_layer(
      "BatchNorm1d of (N, C, L)", {3, 3, 4}, [](Rng&) { return BatchNorm1d(3); }, kMixes);
  check_layer(
      "BatchNorm3d", {3, 2, 2, 3, 2},
      [](Rng&) { return BatchNorm3d(2, {.momentum = std::nullopt}); }, kMixes);
  check_layer("BatchNorm2d, untracked", {3, 2, 3, 2},
              [](Rng&) { return BatchNorm2d(2, {.track_running_stats = false}); },
              {.batch = BatchRule::mixed});
  check_layer("InstanceNorm1d", {2, 3, 5}, [](Rng&) { return InstanceNorm1d(3); });
  check_layer("InstanceNorm2d", {2, 3, 3, 2},
              [](Rng&) { return InstanceNorm2d(3, {.affine = true}); });
  check_layer("InstanceNorm3d", {2, 2, 2, 3, 2}, [](Rng&) {
    return InstanceNorm3d(2, {.affine = true, .track_running_stats = true});
  });
  check_layer("Dropout1d", {3, 4, 2}, [](Rng& r) { return Dropout1d(0.3, r); });
  check_layer("Dropout2d", {3, 4, 2, 2}, [](Rng& r) { return Dropout2d(0.3, r); });
  check_layer("Dropout3d", {2, 4, 2, 1, 2}, [](Rng& r) { return Dropout3d(0.3, r); });
  check_layer("Prelu", {3, 4}, [](Rng&) { return Prelu(); });
  check_layer("Prelu of channels", {2, 3, 4}, [](Rng&) { return Prelu(3, 0.1); });
  check_layer("Glu", {3, 4}, [](Rng&) { return Glu(); });
  check_layer("Mish", {3, 4}, [](Rng&) { return Mish(); });
  check_layer("Hardswish", {3, 4}, [](Rng&) { return Hardswish(); });
  check_layer("LogSigmoid", {3, 4}, [](Rng&) { return LogSigmoid(); });
}

TEST_CASE("check_module: pooling and other sizes") {
  using namespace nn;
  check_layer("MaxPool1d", {2, 3, 7},
              [](Rng&) { return MaxPool1d({.kernel = 3, .stride = 2, .ceil_mode = true}); });
  check_layer("MaxPool2d", {2, 3, 6, 5}, [](Rng&) { return MaxPool2d({.dilation = 2}); });
  check_layer("MaxPool3d", {2, 2, 4, 4, 3}, [](Rng&) { return MaxPool3d(); });
  check_layer("AvgPool1d", {2, 3, 7}, [](Rng&) { return AvgPool1d(); });
  check_layer("AvgPool2d", {2, 2, 5, 5},
              [](Rng&) { return AvgPool2d({.kernel = 3, .stride = 2, .padding = 1}); });
  check_layer("AvgPool3d", {2, 2, 4, 4, 3}, [](Rng&) { return AvgPool3d({.ceil_mode = true}); });
  check_layer("AdaptiveAvgPool1d", {2, 3, 7}, [](Rng&) { return AdaptiveAvgPool1d(3); });
  check_layer("AdaptiveAvgPool2d", {2, 3, 5, 4}, [](Rng&) { return AdaptiveAvgPool2d(1); });
  check_layer("AdaptiveAvgPool3d", {2, 2, 3, 2, 4}, [](Rng&) {
    return AdaptiveAvgPool3d({2, std::nullopt, 3});
  });
  check_layer("AdaptiveMaxPool1d", {2, 3, 7}, [](Rng&) { return AdaptiveMaxPool1d(3); });
  check_layer("AdaptiveMaxPool2d", {2, 3, 5, 4}, [](Rng&) { return AdaptiveMaxPool2d({2, 3}); });
  check_layer("AdaptiveMaxPool3d", {2, 2, 3, 2, 4}, [](Rng&) { return AdaptiveMaxPool3d(2); });
  check_layer("Upsample", {2, 2, 3, 4},
              [](Rng&) { return Upsample({.scale_factor = 1.7, .mode = Interpolation::bicubic}); });
  check_layer("Upsample, antialias", {2, 2, 5, 7}, [](Rng&) {
    return Upsample({.size = {2, 3}, .mode = Interpolation::bilinear, .antialias = true});
  });
  check_layer("PixelShuffle", {2, 8, 2, 3}, [](Rng&) { return PixelShuffle(2); });
  check_layer("PixelUnshuffle", {2, 2, 4, 6}, [](Rng&) { return PixelUnshuffle(2); });
  check_layer("Pad", {2, 2, 3, 4}, [](Rng&) { return Pad({1, 2, 0, 1}, PaddingMode::replicate); });
  check_layer("Unfold", {2, 2, 4, 5}, [](Rng&) { return Unfold({.kernel = 2, .padding = 1}); });
  check_layer("Fold", {2, 8, 6}, [](Rng&) { return Fold({3, 4}, {.kernel = 2}); });
}

TEST_CASE("check_module: parametrizations") {
  using namespace nn;
  check_layer("WeightNorm", {3, 4}, [](Rng& r) { return WeightNorm(Linear(4, 3, r)); });
  check_layer("WeightNorm of a convolution", {2, 2, 4, 3},
              [](Rng& r) { return WeightNorm(Conv2d(2, 3, 2, r), {.dim = std::nullopt}); });
  // The gradient treats u and v as constants. After 500 iterations they no longer change, as
  // central differences need.
  check_layer("SpectralNorm", {3, 4},
              [](Rng& r) { return SpectralNorm(Linear(4, 3, r), r, {.n_power_iterations = 500}); });
  check_layer("SpectralNorm of a convolution", {2, 2, 3, 3}, [](Rng& r) {
    return SpectralNorm(ConvTranspose2d(2, 3, 2, r), r, {.n_power_iterations = 500});
  });
}

}  // namespace
}  // namespace tern::test_check_space_layers
