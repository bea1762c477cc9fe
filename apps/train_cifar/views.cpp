// Computes the mean of a model's logits over shifted and mirrored copies of the images.
#include "tern/apps/train_cifar/views.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/core/base/error.h"
#include "tern/core/ops/convolution/padding.h"

namespace tern::apps::train_cifar {

std::vector<std::string> view_names() { return {"none", "mirror", "translate"}; }

Views views_named(const std::string& name) {
  const std::vector<std::string> names = view_names();
  const auto found = std::find(names.begin(), names.end(), name);
  check(found != names.end(), "tta: there is no '{}'; there are {}", name, fmt::join(names, ", "));
  return static_cast<Views>(found - names.begin());
}

std::string views_text(Views views) {
  switch (views) {
    case Views::none:
      return "";
    case Views::mirror:
      return "mirror images";
    case Views::translate:
      return "mirror images and translations";
  }
  fail_unhandled("Views", views);
}

Tensor logits_of(const ImageClassifier& model, const Tensor& images, Views views) {
  if (views == Views::none) return model(images);
  const auto both = [&](const Tensor& x) { return (model(x) + model(flip(x, {-1}))) * 0.5; };
  const Tensor here = both(images);
  if (views == Views::mirror) return here;
  const int64_t side = images.size(-1);
  const Tensor wide = pad(images, {1, 1, 1, 1}, PaddingMode::reflect);
  const auto from = [&](int64_t i) {
    return both(narrow(narrow(wide, 2, i, side), 3, i, side).contiguous());
  };
  return here * 0.5 + (from(0) + from(2)) * 0.25;
}

}  // namespace tern::apps::train_cifar
