// The models that train_cifar can train, behind one type and in one table.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tern/apps/train_cifar/config.h"
#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/models/airbench.h"
#include "tern/models/gmlp.h"
#include "tern/models/resnet.h"
#include "tern/models/vit.h"

namespace tern::apps::train_cifar {

/// A module that turns images (B, C, S, S) into logits (B, classes).
struct ImageClassifier {
  std::string name;
  PictureForm form;
  std::variant<models::Gmlp, models::Vit, models::ResNet, models::Airbench> network;

  Tensor operator()(const Tensor& images) const {
    return std::visit([&](const auto& n) { return n(images); }, network);
  }
  static void fields(auto& m, auto&& visit) { visit("", m.network); }
};

/// A line of the table.
struct ClassifierEntry {
  std::string name;
  std::variant<models::GmlpOptions, models::VitOptions, models::ResNetOptions,
               models::AirbenchOptions>
      options;
  double dropout = 0;                   ///< the model's own
  int64_t side = datasets::kImageSide;  ///< of the pictures that it is made for
  TrainOptions recipe = {};             ///< how it is trained where no flag says otherwise
  bool any_side = false;                ///< without weights to start from the data choose the side
  /// How weights from elsewhere for large pictures see these.
  datasets::Normalization normalization = {{.5, .5, .5}, {.5, .5, .5}};

  ImageClassifier make(double dropout, Rng& rng, nn::Recompute recompute = nn::Recompute::none,
                       const PictureForm& form = {}) const;
};

/// All of them.
const std::vector<ClassifierEntry>& classifiers();
std::vector<std::string> classifier_names();
/// The one of that name: nullptr, or an Error that lists the names, if there is none.
const ClassifierEntry* look_up_classifier(const std::string& name);
const ClassifierEntry& find_classifier(const std::string& name);

/// The name of the model whose weights these are: the file may say it; else the first in the table
/// with all the names and shapes, whatever its number of classes. IoError if there is none.
std::string model_of_weights(const std::string& path);
/// Loads a safetensors file into the model. IoError if it does not fit.
void load_weights_of(const std::string& path, ImageClassifier& model);
/// The same to start a training, from weights of tern or timm. A head for another number of classes
/// is left out, so that the model keeps its own; the result says that, and is empty otherwise.
/// Anything else that does not fit is an IoError, which names the first misfit.
std::string start_from(const std::string& path, ImageClassifier& model);

}  // namespace tern::apps::train_cifar
