// ResNet ("Deep Residual Learning for Image Recognition", He et al. 2016), with the names and the
// order of torchvision's, so that states of torchvision and of timm's resnet18 to resnet152 load.
// B images of C colours, H x W pixels; F channels of the last stage.
//
//   image (B,C,H,W) -> 7x7 convolution of stride 2, batch norm, ReLU -> max pooling of stride 2 ->
//   stages of blocks; each stage but the first halves the sides and doubles the channels
//   (B,F,H/32,W/32) -> mean over the places (B,F) -> fc
//
//   basic block:  relu(x + bn2(conv2(relu(bn1(conv1(x))))))       two convolutions of 3x3
//   bottleneck:   1x1 down, 3x3, 1x1 up to four times the width; the 3x3 has the stride ("v1.5")
//
// Where a block changes the shape, x passes a 1x1 convolution and a batch norm, `downsample`.
// Pictures of about 32 x 32 lose too much in the stem: `small_pictures` begins with a 3x3
// convolution of stride 1 and does not pool. Groups in the 3x3 make it a ResNeXt (Xie et al. 2017),
// more channels a wide ResNet (Zagoruyko & Komodakis 2016).
//
// Names: conv1, bn1, layerS.I.{conv1, bn1, conv2, bn2, conv3, bn3, downsample.0, downsample.1}, fc;
// stages S count from 1, blocks I from 0. Convolutions start in N(0, 2 / fan_out).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/models/heatmaps.h"
#include "tern/nn/nn.h"

namespace tern::models {

enum class ResNetBlockKind { basic, bottleneck };

struct ResNetOptions {
  ResNetBlockKind block = ResNetBlockKind::basic;
  std::vector<int64_t> layers = {2, 2, 2, 2};  ///< blocks of each stage
  int64_t classes = 1000;                      ///< 0: no fc, returns the means (B, F)
  int64_t channels = 3;                        ///< colour channels of the input
  int64_t width = 64;               ///< channels of the stem; doubled from stage to stage
  int64_t groups = 1;               ///< of a bottleneck's 3x3
  int64_t width_per_group = 64;     ///< channels of a group in the first stage, if width is 64
  bool small_pictures = false;      ///< a stem of 3x3 without stride and pooling
  bool zero_init_residual = false;  ///< the last norm of each block starts at 0 (Goyal et al. 2017)
  double dropout = 0;               ///< before fc
  nn::Recompute recompute = nn::Recompute::none;  ///< of the blocks
};

/// torchvision's: resnet18, resnet34, resnet50, resnet101, resnet152, resnext50_32x4d,
/// resnext101_32x8d, resnext101_64x4d, wide_resnet50_2, wide_resnet101_2.
const std::vector<std::pair<std::string, ResNetOptions>>& resnet_configurations();
/// The options with this name. If there is none, an Error lists the names.
ResNetOptions resnet_options(const std::string& name);
std::vector<std::string> resnet_names();

/// The options inferred from the shapes of a state, for a model that uses all its weights. IoError
/// that names a missing weight, or one that is not a ResNet's. timm's resnetaa50 and resnetblur50
/// look like a resnet50, but blur before they halve the sides: do not load them.
ResNetOptions resnet_options_of(const NamedTensors& state);

struct ResNetBlock {
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  std::optional<nn::Conv2d> conv3;  ///< of a bottleneck
  std::optional<nn::BatchNorm2d> bn3;
  std::optional<nn::Sequential<nn::Conv2d, nn::BatchNorm2d>> downsample;

  /// x (B, in, H, W) -> (B, out, H/stride, W/stride). `planes` is `out` for a basic block and
  /// out / 4 for a bottleneck.
  ResNetBlock(const ResNetOptions& options, int64_t in, int64_t planes, int64_t stride, Rng& rng);
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& m, auto&& visit) {
    visit("conv1", m.conv1);
    visit("bn1", m.bn1);
    visit("conv2", m.conv2);
    visit("bn2", m.bn2);
    visit("conv3", m.conv3);
    visit("bn3", m.bn3);
    visit("downsample", m.downsample);
  }
};

/// Logits (B, classes) of images (B, channels, H, W) of any size.
struct ResNet {
  ResNetOptions options;
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  std::vector<std::vector<ResNetBlock>> stages;
  nn::Dropout dropout;
  std::optional<nn::Linear> fc;

  ResNet(const ResNetOptions& options, Rng& rng);
  Tensor operator()(const Tensor& images) const;
  /// The output of the last stage: (B, F, H/32, W/32), rounded up; with `small_pictures` H/8, W/8.
  Tensor features(const Tensor& images) const;
  int64_t feature_channels() const;  ///< F
  // For reports, see heatmaps.h.
  std::string summary() const;
  /// Class activation maps of the predicted classes ("Learning Deep Features for Discriminative
  /// Localization", Zhou et al. 2016): a logit is the mean over places of the class's weights times
  /// the features, so each place adds its own part. Values are shares of the positive parts. No
  /// maps without fc.
  PatchMaps patch_maps(const Tensor& images) const;
  static void fields(auto& m, auto&& visit) {
    visit("conv1", m.conv1);
    visit("bn1", m.bn1);
    for (size_t s = 0; s < m.stages.size(); ++s)
      visit("layer" + std::to_string(s + 1), m.stages[s]);
    visit("dropout", m.dropout);
    visit("fc", m.fc);
  }
};

}  // namespace tern::models
