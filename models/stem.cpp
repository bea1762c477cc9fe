// The stem's layers, and its sizes.
#include "tern/models/stem.h"

#include <fmt/format.h>

#include "tern/core/base/error.h"

namespace tern::models {

const Stem& hybrid_stem() {
  static const Stem kStem = {{.channels = 24},
                             {.channels = 64, .pool = true},
                             {.channels = 64, .residual = true},
                             {.channels = 192, .pool = true},
                             {.channels = 192, .residual = true}};
  return kStem;
}

int64_t patches_after(const Stem& stem, int64_t side, int64_t patch, const char* model) {
  int64_t channels = 0;
  for (const StemLayer& layer : stem) {
    check(layer.channels > 0 && layer.stride > 0,
          "{}: channels and strides of the stem must be positive, one layer has {} and {}", model,
          layer.channels, layer.stride);
    check(
        !layer.residual || (layer.stride == 1 && !layer.pool && layer.channels == channels),
        "{}: a residual layer of the stem keeps the shape: stride 1, no pool, and the {} channels "
        "of the layer before",
        model, channels);
    channels = layer.channels;
    side = (side - 1) / layer.stride + 1;
    if (layer.pool) side /= 2;
  }
  check(patch > 0 && side >= patch && side % patch == 0,
        "{}: patches of {} do not tile {} x {} pixels{}", model, patch, side, side,
        stem.empty() ? "" : " (the size after the stem)");
  return side / patch;
}

int64_t pixels_per_place(const Stem& stem) {
  int64_t pixels = 1;
  for (const StemLayer& layer : stem) pixels *= layer.stride * (layer.pool ? 2 : 1);
  return pixels;
}

int64_t channels_after(const Stem& stem, int64_t image_channels) {
  return stem.empty() ? image_channels : stem.back().channels;
}

int64_t stem_weights(const Stem& stem, int64_t image_channels) {
  int64_t n = 0, in = image_channels;
  for (const StemLayer& layer : stem) {
    n += (9 * in + 2) * layer.channels;
    in = layer.channels;
  }
  return n;
}

ConvNormGelu::ConvNormGelu(int64_t in, const StemLayer& l, Rng& rng)
    : conv(in, l.channels, {3, 3}, rng, {.stride = {l.stride, l.stride}, .padding = {1, 1}},
           nn::Bias::no),
      norm(l.channels),
      pool(l.pool),
      residual(l.residual) {}

Tensor ConvNormGelu::operator()(const Tensor& x) const {
  Tensor y = conv(x);
  if (pool) y = max_pool2d(y, {.kernel = {2, 2}});
  y = gelu(norm(y));
  return residual ? x + y : y;
}

std::string behind(const Stem& stem) {
  return stem.empty() ? "" : fmt::format(", behind a stem of {} convolutions", stem.size());
}

std::vector<ConvNormGelu> stem_layers(const Stem& stem, int64_t image_channels, Rng& rng) {
  std::vector<ConvNormGelu> layers;
  int64_t in = image_channels;
  for (const StemLayer& layer : stem) {
    layers.emplace_back(in, layer, rng);
    in = layer.channels;
  }
  return layers;
}

}  // namespace tern::models
