#include "tern/apps/train_cifar/classifier.h"

#include <fmt/format.h>

#include "tern/apps/common/weights_fit.h"
#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"
#include "tern/models/gmlp.h"
#include "tern/models/vit.h"

namespace tern::apps::train_cifar {
namespace {

std::vector<ClassifierEntry> joined(std::initializer_list<std::vector<ClassifierEntry>> families) {
  std::vector<ClassifierEntry> all;
  for (const auto& family : families) all.insert(all.end(), family.begin(), family.end());
  return all;
}

// Deep stacks on patches need small steps at first, and more pictures than there are.
TrainOptions deep_recipe() {
  TrainOptions r;
  r.batch = 64;
  r.lr = 1e-3;
  r.weight_decay = 0.05;
  r.schedule = "cosine";
  r.warmup = 500;
  r.label_smoothing = 0.1;
  r.augment = "standard";
  r.clip = 1;
  return r;
}

// After an epoch with strong augmentation the top-1 is 45 %, with AdamW at 1e-3 27 %.
TrainOptions muon_recipe() {
  TrainOptions r = deep_recipe();
  r.optimizer = "muon";
  r.lr = 2e-3;
  return r;
}

std::vector<ClassifierEntry> with_recipe(std::vector<ClassifierEntry> all, const std::string& name,
                                         const TrainOptions& recipe) {
  for (ClassifierEntry& e : all)
    if (e.name == name) e.recipe = recipe;
  return all;
}

}  // namespace

const std::vector<ClassifierEntry>& classifiers() {
  // A line a family. To add one: its header above, and its configurations here.
  static const std::vector<ClassifierEntry> kAll = joined({
      with_recipe(entries<models::Gmlp>(models::gmlp_configurations()), "gmlp-ti-p4",
                  deep_recipe()),
      with_recipe(entries<models::Vit>(models::vit_cifar_configurations(), deep_recipe()),
                  "vit-lite-7-4", muon_recipe()),
  });
  return kAll;
}

std::vector<std::string> classifier_names() {
  std::vector<std::string> names;
  for (const ClassifierEntry& e : classifiers()) names.push_back(e.name);
  return names;
}

const ClassifierEntry* look_up_classifier(const std::string& name) {
  for (const ClassifierEntry& e : classifiers())
    if (e.name == name) return &e;
  return nullptr;
}

const ClassifierEntry& find_classifier(const std::string& name) {
  if (const ClassifierEntry* found = look_up_classifier(name)) return *found;
  fail(fmt::format("there is no model '{}'; there are {}", name,
                   fmt::join(classifier_names(), ", ")));
}

void load_weights_of(const std::string& path, ImageClassifier& model) {
  SafeTensors file = load_safetensors(path);
  check_io(!file.metadata.count("checksum"),
           "{}: this is the checkpoint of a run, not a model's weights; these are in "
           "model.safetensors beside it",
           path);
  check_finite_weights(path, file.tensors);
  auto said = file.metadata.find("model");
  if (said != file.metadata.end())
    check_io(said->second == model.name(), "{}: these are the weights of {}, not of {}", path,
             said->second, model.name());
  try {
    nn::load_state_dict(model, file.tensors, {.take = true});
  } catch (const Error& e) {
    fail_io(fmt::format("{}: not the weights of {}: {}", path, model.name(), e.what()));
  }
}

}  // namespace tern::apps::train_cifar
