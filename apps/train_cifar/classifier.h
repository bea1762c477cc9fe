// Any model that train_cifar can train, behind one type; and the one table of those there are.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/train_cifar/config.h"
#include "tern/core/base/rng.h"
#include "tern/models/heatmaps.h"
#include "tern/nn/module_ref.h"
#include "tern/nn/recompute.h"

namespace tern::apps::train_cifar {

/// A module that makes logits (B, classes) of images (B, C, S, S), and what it tells of itself
/// (models/heatmaps.h). A module itself, and a handle: copies are the same model.
class ImageClassifier {
 public:
  template <class M>
  ImageClassifier(std::string name, M model, PictureForm form = {});

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
  static void fields(auto& m, auto&& visit) { visit("", m.module_); }

 private:
  template <class M>
  ImageClassifier(std::string name, std::shared_ptr<M> model, PictureForm form);

  std::string name_;
  PictureForm form_;
  std::function<Tensor(const Tensor&)> forward_;
  nn::ModuleRef module_;
  std::function<std::string()> summary_;
  int64_t patch_size_ = 0;
  std::function<models::Heatmaps(const Tensor&)> heatmaps_;
  std::function<models::PatchMaps(const Tensor&)> patch_maps_;
};

/// A line of the table: a name, and how its model is made.
struct ClassifierEntry {
  std::string name;
  double dropout;    ///< the model's own
  bool has_dropout;  ///< whether another can be set
  std::function<ImageClassifier(double dropout, Rng& rng, nn::Recompute recompute,
                                const PictureForm& form)>
      build;
  TrainOptions recipe = {};    ///< how it is trained where no flag says otherwise
  bool has_recompute = false;  ///< whether its blocks can be computed again in backward

  ImageClassifier make(double p, Rng& rng, nn::Recompute recompute = nn::Recompute::none,
                       const PictureForm& form = {}) const {
    return build(p, rng, recompute, form);
  }
};

/// All there are.
const std::vector<ClassifierEntry>& classifiers();
std::vector<std::string> classifier_names();
/// The one of that name: nullptr, or an Error that lists the names, if there is none.
const ClassifierEntry* look_up_classifier(const std::string& name);
const ClassifierEntry& find_classifier(const std::string& name);

/// Loads a safetensors file into the model. IoError if it does not fit.
void load_weights_of(const std::string& path, ImageClassifier& model);

/// The entries of models M, made from (options, rng), by names.
template <class M, class Options>
std::vector<ClassifierEntry> entries(const std::vector<std::pair<std::string, Options>>& named,
                                     const TrainOptions& recipe = {});

template <class M>
ImageClassifier::ImageClassifier(std::string name, M model, PictureForm form)
    : ImageClassifier(std::move(name), std::make_shared<M>(std::move(model)), form) {}

template <class M>
ImageClassifier::ImageClassifier(std::string name, std::shared_ptr<M> model, PictureForm form)
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
}

template <class M, class Options>
std::vector<ClassifierEntry> entries(const std::vector<std::pair<std::string, Options>>& named,
                                     const TrainOptions& recipe) {
  std::vector<ClassifierEntry> out;
  for (const auto& [name, options] : named) {
    constexpr bool kHasDropout = requires(Options o) { o.dropout = 0.5; };
    double dropout = 0;
    if constexpr (kHasDropout) dropout = options.dropout;
    constexpr bool kHasRecompute = requires(Options o) { o.recompute = nn::Recompute::full; };
    auto build = [name = name, options = options](double p, Rng& rng, nn::Recompute recompute,
                                                  const PictureForm& form) {
      Options o = options;
      if constexpr (kHasDropout) o.dropout = p;
      if constexpr (kHasRecompute) o.recompute = recompute;
      if constexpr (requires { o.image = 32, o.channels = 3, o.classes = 10; }) {
        o.image = form.side;
        o.channels = form.channels;
        o.classes = form.classes;
      }
      return ImageClassifier(name, M(o, rng), form);
    };
    out.push_back({name, dropout, kHasDropout, build, recipe, kHasRecompute});
  }
  return out;
}

}  // namespace tern::apps::train_cifar
