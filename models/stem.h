// Convolutions in front of the patches of a gMLP or ViT. They find edges and textures at once, so
// the model learns from fewer pictures ("Early Convolutions Help Transformers See Better", Xiao et
// al. 2021).
//
//   layer: conv 3 x 3 with padding 1 and no bias -> [maximum of 2 x 2] -> batch norm -> GELU
//   -> [+ its input]
#pragma once

#include <string>
#include <vector>

#include "tern/nn/nn.h"

namespace tern::models {

struct StemLayer {
  int64_t channels = 64, stride = 1;
  bool pool = false;      ///< halves the sides, rounded down, by the maximum of each 2 x 2 places
  bool residual = false;  ///< adds its input; needs the input's shape
};
using Stem = std::vector<StemLayer>;

/// Five convolutions for images of 32 x 32, with 192 channels of 8 x 8 places.
const Stem& hybrid_stem();
/// How many patches of the stem's output are side by side, for images of side x side. Error if
/// they do not tile it.
int64_t patches_after(const Stem& stem, int64_t side, int64_t patch, const char* model);
int64_t pixels_per_place(const Stem& stem);  ///< side of a place of the output, in image pixels
int64_t stem_weights(const Stem& stem, int64_t image_channels);  ///< the number of weights
/// Channels of the output; without layers those of the images.
int64_t channels_after(const Stem& stem, int64_t image_channels);

struct ConvNormGelu {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  bool pool, residual;

  ConvNormGelu(int64_t in, const StemLayer& layer, Rng& rng);
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& m, auto&& visit) {
    visit("conv", m.conv);
    visit("norm", m.norm);
  }
};

std::string behind(const Stem& stem);  ///< for reports: ", behind a stem of 3 convolutions", or ""
std::vector<ConvNormGelu> stem_layers(const Stem& stem, int64_t image_channels, Rng& rng);

}  // namespace tern::models
