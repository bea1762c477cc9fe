// Test-time augmentation: averages a model's logits over several views of a picture.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/train_cifar/classifier.h"

namespace tern::apps::train_cifar {

enum class Views {
  none,       ///< only the picture
  mirror,     ///< the picture and its mirror image, with weight 1/2 each
  translate,  ///< these two with total weight 1/2, and both moved by (-1, -1) and by (1, 1) with
              ///< total weight 1/4 each; reflection padding (Jordan 2024, arXiv:2404.00498)
};

std::vector<std::string> view_names();
Views views_named(const std::string& name);
/// "mirror images", for recipes and results; empty for none.
std::string views_text(Views views);

/// The weighted means of the logits (B, classes) over the views of images (B, C, S, S).
Tensor logits_of(const ImageClassifier& model, const Tensor& images, Views views);

}  // namespace tern::apps::train_cifar
