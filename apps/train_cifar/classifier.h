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

/// An entry of the table of models.
struct ClassifierEntry {
  std::string name;
  std::variant<models::GmlpOptions, models::VitOptions, models::ResNetOptions,
               models::AirbenchOptions>
      options;
  double dropout = 0;                   ///< the model's default
  int64_t side = datasets::kImageSide;  ///< side of pictures that the model is made for
  TrainOptions recipe = {};             ///< defaults of its training
  bool any_side = false;                ///< without pretrained weights, the data choose the side
  /// Normalisation for pretrained weights from elsewhere, which are for large pictures.
  datasets::Normalization normalization = {{.5, .5, .5}, {.5, .5, .5}};

  ImageClassifier make(double dropout, Rng& rng, nn::Recompute recompute = nn::Recompute::none,
                       const PictureForm& form = {}) const;
};

/// All models.
const std::vector<ClassifierEntry>& classifiers();
std::vector<std::string> classifier_names();
/// The model of that name. If there is none, look_up_classifier() returns nullptr, and
/// find_classifier() throws an Error that lists the names.
const ClassifierEntry* look_up_classifier(const std::string& name);
const ClassifierEntry& find_classifier(const std::string& name);

/// The name of the model that a file of weights belongs to: the file may say it, else the first
/// model in the table with the same names and shapes, apart from the number of classes. IoError if
/// there is none.
std::string model_of_weights(const std::string& path);
/// Loads a file of weights (load_tensors) into the model. IoError if it does not fit.
void load_weights_of(const std::string& path, ImageClassifier& model);
/// The same at the start of a training, with weights of tern or timm. If the file's head has
/// another number of classes, the model keeps its own head, and the result says so; otherwise the
/// result is empty. IoError, which names the first misfit, if anything else does not fit.
std::string start_from(const std::string& path, ImageClassifier& model);

}  // namespace tern::apps::train_cifar
