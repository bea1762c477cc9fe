// The small convolutional network of airbench94, which reaches 94 % on CIFAR-10 in a few seconds on
// a large GPU ("94% on CIFAR-10 in 3.29 Seconds on a Single GPU", Jordan 2024, arXiv:2404.00498).
// It follows tysam-code's hlb-CIFAR10 and Page 2018, "How to Train Your ResNet". B images of S x S
// pixels.
//
//   image (B,3,S,S) -> whitening convolution of 2 x 2, GELU (B,24,S-1,S-1) -> three blocks of 64,
//   256 and 256 channels (B,256,S',S') -> maximum of each channel -> dropout -> head, times 1/9
//
//   block: conv 3 x 3, max pool of 2, norm, GELU; conv 3 x 3, norm, GELU
//
// A block halves the sides, rounded down: 31 -> 15 -> 7 -> 3 for images of 32. Convolutions of
// blocks have padding 1 and no bias, and start as the identity in their first channels (the others
// as in nn::Conv2d). Norms are batch norms with a bias and no weight, whose running statistics
// forget fast. The head has no bias. The weights of the whitening convolution are frozen: whiten()
// computes them from training images. Training should freeze its bias too, after
// `whiten_bias_epochs`. Dropout is not in the original.
#pragma once

#include <string>
#include <vector>

#include "tern/nn/nn.h"

namespace tern::models {

struct AirbenchOptions {
  int64_t image = 32, channels = 3;  ///< size (height = width) and colour channels of the input
  std::vector<int64_t> widths = {64, 256, 256};  ///< channels of the blocks
  int64_t whiten_kernel = 2;
  double norm_momentum = 0.4;  ///< weight of a batch in the running statistics: the paper's 1 - 0.6
  double norm_eps = 1e-12;
  double scale = 1.0 / 9;  ///< of the logits
  int64_t classes = 10;
  double dropout = 0;              ///< before the head
  int64_t whiten_bias_epochs = 3;  ///< epochs in which the first bias is trained
};

/// airbench94. Error for another name.
AirbenchOptions airbench_options(const std::string& name);
std::vector<std::string> airbench_names();

struct AirbenchBlock {
  nn::Conv2d conv1;
  nn::BatchNorm2d norm1;
  nn::Conv2d conv2;
  nn::BatchNorm2d norm2;

  AirbenchBlock(int64_t in, int64_t out, const AirbenchOptions& options, Rng& rng);
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& m, auto&& visit) {
    visit("conv1", m.conv1);
    visit("norm1", m.norm1);
    visit("conv2", m.conv2);
    visit("norm2", m.norm2);
  }
};

/// Logits (B, classes) of images (B, channels, image, image).
struct Airbench {
  AirbenchOptions options;
  nn::Conv2d whitening;  ///< its weight requires no gradient
  std::vector<AirbenchBlock> blocks;
  nn::Dropout dropout;
  nn::Linear head;

  /// Error if the images are so small that a block's output is empty.
  Airbench(const AirbenchOptions& options, Rng& rng);
  Tensor operator()(const Tensor& images) const;
  /// Computes the first weights from (normalised, not augmented) training images:
  /// nn::init::whitening. Until then they are random. The paper uses 5,000 images.
  void whiten(const Tensor& images);
  /// Says whether the first bias is trained.
  void train_whitening_bias(bool on);
  std::string summary() const;  // for reports, see heatmaps.h
  static void fields(auto& m, auto&& visit) {
    visit("whitening", m.whitening);
    visit("blocks", m.blocks);
    visit("dropout", m.dropout);
    visit("head", m.head);
  }
};

}  // namespace tern::models
