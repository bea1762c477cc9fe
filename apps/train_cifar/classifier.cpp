// The table of image models with their recipes, and loading of their weights from tern, timm and
// torchvision.
#include "tern/apps/train_cifar/classifier.h"

#include <fmt/format.h>

#include <set>

#include "tern/apps/common/training/weights_fit.h"
#include "tern/core/base/error.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/io/tensor_file.h"

namespace tern::apps::train_cifar {
namespace {

// Deep models on patches need a warm-up, and augmentation, since they need more pictures than the
// data have.
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

// The recipe of airbench94, from the program of arXiv:2404.00498. That program sums the losses of a
// batch, and divides its rate of 11.5 by 1024 (1 + 1 / (1 - momentum)). For the mean over 1024
// images the rate is 11.5 / (1 + 1 / .15) = 1.5. Its decay per step is .0153 / (1 + 1 / .15);
// divided by the rate this is a weight decay of .0153 / 11.5. It trains 9.9 epochs: 476 steps of
// full batches (--steps 476). Another --batch needs a --lr in proportion.
TrainOptions airbench_recipe() {
  TrainOptions r;
  r.batch = 1024;
  r.drop_last = true;
  r.optimizer = "sgd";
  r.details = {.momentum = 0.85, .nesterov = true, .norm_bias_lr = 64, .lookahead = 5};
  r.lr = 1.5;
  r.schedule = "triangle";
  r.weight_decay = 0.0153 / 11.5;
  r.label_smoothing = 0.2;
  r.augment = "translate";
  r.alternate_flips = true;
  r.tta = "translate";
  return r;
}

// gmlp-hybrid and vit-hybrid: docs/choosing.md.
TrainOptions hybrid_recipe() {
  TrainOptions r = deep_recipe();
  r.optimizer = "muon";
  r.lr = 4e-3;
  r.warmup = 100;
  r.epochs = 7;
  r.alternate_flips = true;
  r.tta = "mirror";
  return r;
}

TrainOptions recipe_of(const std::string& name, int64_t side) {
  if (name == "airbench94") return airbench_recipe();
  if (name == "gmlp-hybrid" || name == "vit-hybrid") return hybrid_recipe();
  const bool deep =
      side > datasets::kImageSide || name == "gmlp-ti-p4" || name.find("vit") != std::string::npos;
  if (!deep) return {};
  TrainOptions r = deep_recipe();
  if (name != "vit-lite-7-4") return r;
  // After one epoch with strong augmentation, top-1 is 45 % with muon, and 27 % with AdamW at 1e-3.
  r.optimizer = "muon";
  r.lr = 2e-3;
  return r;
}

// Adds the named models of a family.
template <class Options>
void add_family(std::vector<ClassifierEntry>& all, const std::vector<std::string>& names,
                Options (*options_of)(const std::string& name)) {
  for (const std::string& name : names) {
    const Options o = options_of(name);
    all.push_back({name, o, o.dropout, o.image, recipe_of(name, o.image)});
  }
}

// Adds the ResNets. They take pictures of any size; those of torchvision and timm are for 224 x
// 224.
void add_resnets(std::vector<ClassifierEntry>& all) {
  constexpr int64_t kSide = 224;
  for (const auto& [name, o] : models::resnet_configurations())
    all.push_back({name,
                   o,
                   o.dropout,
                   kSide,
                   recipe_of(name, kSide),
                   true,
                   {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}});
}

// Up to this side, a ResNet's usual stem would shrink pictures too much.
constexpr int64_t kSmallSide = 64;

models::Gmlp model_of(const models::GmlpOptions& o, Rng& rng) { return {o, rng}; }
models::Vit model_of(const models::VitOptions& o, Rng& rng) { return {o, rng}; }
models::ResNet model_of(const models::ResNetOptions& o, Rng& rng) { return {o, rng}; }
models::Airbench model_of(const models::AirbenchOptions& o, Rng& rng) { return {o, rng}; }

void fit(auto& options, const PictureForm& form) { options.image = form.side; }
void fit(models::ResNetOptions& options, const PictureForm& form) {
  options.small_pictures = form.side <= kSmallSide;
}

[[noreturn]] void fail_misfit(const std::string& path, const ImageClassifier& model,
                              const std::string& why) {
  fail_io(fmt::format("{}: not the weights of {}: {}", path, model.name, why));
}

// Reads the weights of a model. IoError for a checkpoint, and for weights that are not finite.
SafeTensors read_weights(const std::string& path) {
  SafeTensors file = load_tensors(path);
  check_io(!file.metadata.contains("checksum"),
           "{}: this is the checkpoint of a run, not a model's weights; these are in "
           "model.safetensors beside it",
           path);
  check_finite_weights(path, file.tensors);
  return file;
}

void check_model_name(const std::string& path, const SafeTensors& file,
                      const ImageClassifier& model) {
  const auto said = file.metadata.find("model");
  if (said != file.metadata.end() && said->second != model.name)
    fail_io(
        fmt::format("{}: these are the weights of {}, not of {}", path, said->second, model.name));
}

bool is_head(const std::string& name) {
  return name == "head.weight" || name == "head.bias" || name == "fc.weight" || name == "fc.bias";
}

// The number of classes of the head; 0 if there is none.
int64_t classes_of(const NamedTensors& state) {
  for (const auto& [name, t] : state)
    if (is_head(name) && name.ends_with(".weight") && t.ndim() > 0) return t.size(0);
  return 0;
}

// The first reason why a file does not fit a model, apart from the head; empty if it fits. Position
// embeddings may be resized.
std::string first_misfit(const NamedTensors& model, const SafeTensors& file) {
  std::set<std::string> known;
  for (const auto& [name, own] : model) {
    known.insert(name);
    if (is_head(name) || nn::is_batch_count(name)) continue;
    const Tensor found = file.find(name);
    if (!found.defined()) return fmt::format("it has no {}", name);
    if (found.shape() != own.shape() && name != "pos_embed")
      return fmt::format("its {} is {}, the model's is {}", name, found.shape(), own.shape());
  }
  for (const auto& [name, t] : file.tensors)
    if (!known.contains(name)) return fmt::format("its {} is not in the model", name);
  return "";
}

}  // namespace

const std::vector<ClassifierEntry>& classifiers() {
  // One line per family. Its model and options are in classifier.h, too, and in model_of above.
  static const std::vector<ClassifierEntry> kAll = [] {
    std::vector<ClassifierEntry> all;
    add_family(all, models::gmlp_names(), models::gmlp_options);
    add_family(all, models::vit_names(), models::vit_options);
    add_resnets(all);
    add_family(all, models::airbench_names(), models::airbench_options);
    return all;
  }();
  return kAll;
}

ImageClassifier ClassifierEntry::make(double p, Rng& rng, nn::Recompute recompute,
                                      const PictureForm& form) const {
  auto build = [&](auto o) -> ImageClassifier {
    o.dropout = p;
    if constexpr (requires { o.recompute; })
      o.recompute = recompute;
    else
      check(recompute == nn::Recompute::none, "--recompute: {} has no blocks to recompute", name);
    fit(o, form);
    o.channels = form.channels;
    o.classes = form.classes;
    return {name, form, model_of(o, rng)};
  };
  return std::visit(build, options);
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

std::string model_of_weights(const std::string& path) {
  const SafeTensors file = read_weights(path);
  const auto said = file.metadata.find("model");
  if (said != file.metadata.end()) return said->second;
  ShapeOnlyScope nothing;
  for (const ClassifierEntry& e : classifiers()) {
    Rng rng(0);
    const ImageClassifier model = e.make(0, rng, nn::Recompute::none, {.side = e.side});
    if (first_misfit(nn::state_dict(model), file).empty()) return e.name;
  }
  fail_io(
      fmt::format("{}: these weights fit none of the models here; --help lists the models", path));
}

void load_weights_of(const std::string& path, ImageClassifier& model) {
  const SafeTensors file = read_weights(path);
  check_model_name(path, file, model);
  try {
    nn::load_state_dict(model, file.tensors, {.take = true});
  } catch (const Error& e) {
    fail_misfit(path, model, e.what());
  }
}

std::string start_from(const std::string& path, ImageClassifier& model) {
  SafeTensors file = read_weights(path);
  check_model_name(path, file, model);
  const NamedTensors own = nn::state_dict(model);
  if (const std::string misfit = first_misfit(own, file); !misfit.empty())
    fail_misfit(path, model, misfit);
  const int64_t known = classes_of(file.tensors);
  const int64_t classes = model.form.classes;
  if (known != classes) {
    std::erase_if(file.tensors, [](const auto& named) { return is_head(named.first); });
    for (const auto& [name, t] : own)
      if (is_head(name)) file.tensors.emplace_back(name, t.clone());
  }
  try {
    if (auto* const vit = std::get_if<models::Vit>(&model.network))
      load_vit(*vit, file.tensors);  // resizes position embeddings for another size of pictures
    else
      nn::load_state_dict(model, file.tensors);
  } catch (const Error& e) {
    fail_misfit(path, model, e.what());
  }
  if (known == classes) return "";
  return fmt::format(
      "{}: {}; a new head for {} classes is trained", path,
      known == 0 ? "it has no head" : fmt::format("the head of {} classes is left out", known),
      classes);
}

}  // namespace tern::apps::train_cifar
