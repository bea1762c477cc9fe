// Test-time augmentation: the answers of a model to several views of a picture, averaged.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/train_cifar/classifier.h"

namespace tern::apps::train_cifar {

enum class Views {
  none,       ///< the picture alone
  mirror,     ///< and its mirror image, half each
  translate,  ///< these with weight 1/2, and both moved by (-1, -1) and by (1, 1) with 1/4 each;
              ///< what comes in is reflected (Jordan 2024, arXiv:2404.00498)
};

std::vector<std::string> view_names();
Views views_named(const std::string& name);
/// "mirror images", for recipes and results; empty for none.
std::string views_text(Views views);

/// The means of the logits (B, classes) of these views of images (B, C, S, S).
Tensor logits_of(const ImageClassifier& model, const Tensor& images, Views views);

}  // namespace tern::apps::train_cifar
