// The models that train_cifar can train, behind one type and in one table.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/train_cifar/config.h"
#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/models/heatmaps.h"
#include "tern/nn/module.h"
#include "tern/nn/module_ref.h"
#include "tern/nn/recompute.h"

namespace tern::apps::train_cifar {

/// A module that turns images (B, C, S, S) into logits (B, classes), with what it can show in
/// reports (models/heatmaps.h). It is a module itself, and a handle: copies are the same model.
class ImageClassifier {
 public:
  template <class M>
  ImageClassifier(std::string name, M model, const PictureForm& form)
      : ImageClassifier(std::move(name), std::make_shared<M>(std::move(model)), form) {}

  Tensor operator()(const Tensor& images) const { return forward_(images); }
  const std::string& name() const { return name_; }
  const PictureForm& form() const { return form_; }
  std::string summary() const { return summary_ ? summary_() : ""; }
  int64_t patch_size() const { return patch_size_; }  ///< 0: it sees no patches
  models::Heatmaps heatmaps(const Tensor& images) const {
    return heatmaps_ ? heatmaps_(images) : models::Heatmaps{};
  }
  models::PatchMaps patch_maps(const Tensor& images) const {
    return patch_maps_ ? patch_maps_(images) : models::PatchMaps{};
  }
  /// Loads weights that may be for pictures of another size, where the model can resize them.
  void load(const NamedTensors& state) { load_(state); }
  static void fields(auto& m, auto&& visit) { visit("", m.module_); }

 private:
  template <class M>
  ImageClassifier(std::string name, std::shared_ptr<M> model, const PictureForm& form);

  std::string name_;
  PictureForm form_;
  std::function<Tensor(const Tensor&)> forward_;
  nn::ModuleRef module_;
  std::function<std::string()> summary_;
  int64_t patch_size_ = 0;
  std::function<models::Heatmaps(const Tensor&)> heatmaps_;
  std::function<models::PatchMaps(const Tensor&)> patch_maps_;
  std::function<void(const NamedTensors&)> load_;
};

/// A line of the table: a name, and how its model is made.
struct ClassifierEntry {
  std::string name;
  double dropout;    ///< the model's own
  bool has_dropout;  ///< whether another can be set
  std::function<ImageClassifier(double dropout, Rng& rng, nn::Recompute recompute,
                                const PictureForm& form)>
      build;
  bool has_recompute = false;       ///< whether its blocks can be recomputed in the backward pass
  int64_t side = data::kImageSide;  ///< of the pictures that it is made for
  TrainOptions recipe = {};         ///< how it is trained where no flag says otherwise

  ImageClassifier make(double p, Rng& rng, nn::Recompute recompute = nn::Recompute::none,
                       const PictureForm& form = {}) const {
    return build(p, rng, recompute, form);
  }
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

/// The entries of models M, made from (options, rng), by names.
template <class M, class Options>
std::vector<ClassifierEntry> entries(const std::vector<std::pair<std::string, Options>>& named);

template <class M>
ImageClassifier::ImageClassifier(std::string name, std::shared_ptr<M> model,
                                 const PictureForm& form)
    : name_(std::move(name)),
      form_(form),
      forward_([model](const Tensor& images) { return (*model)(images); }),
      module_(*model) {
  if constexpr (requires { model->summary(); }) summary_ = [model] { return model->summary(); };
  if constexpr (requires { model->patch_size(); }) patch_size_ = model->patch_size();
  if constexpr (requires(Tensor x) { model->heatmaps(x); })
    heatmaps_ = [model](const Tensor& images) { return model->heatmaps(images); };
  if constexpr (requires(Tensor x) { model->patch_maps(x); })
    patch_maps_ = [model](const Tensor& images) { return model->patch_maps(images); };
  load_ = [model](const NamedTensors& state) {
    if constexpr (requires { load_vit(*model, state); })
      load_vit(*model, state);
    else
      nn::load_state_dict(*model, state);
  };
}

template <class M, class Options>
std::vector<ClassifierEntry> entries(const std::vector<std::pair<std::string, Options>>& named) {
  std::vector<ClassifierEntry> out;
  for (const auto& [name, options] : named) {
    constexpr bool kHasDropout = requires(Options o) { o.dropout = 0.5; };
    constexpr bool kHasRecompute = requires(Options o) { o.recompute = nn::Recompute::full; };
    constexpr bool kHasForm = requires(Options o) { o.image = 32, o.channels = 3, o.classes = 10; };
    auto build = [name = name, options = options](double p, Rng& rng, nn::Recompute recompute,
                                                  const PictureForm& form) {
      Options o = options;
      if constexpr (kHasDropout) o.dropout = p;
      if constexpr (kHasRecompute) o.recompute = recompute;
      if constexpr (kHasForm) {
        o.image = form.side;
        o.channels = form.channels;
        o.classes = form.classes;
      }
      return ImageClassifier(name, M(o, rng), form);
    };
    ClassifierEntry entry{name, 0, kHasDropout, build, kHasRecompute};
    if constexpr (kHasDropout) entry.dropout = options.dropout;
    if constexpr (kHasForm) entry.side = options.image;
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace tern::apps::train_cifar
