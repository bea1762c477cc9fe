// Chooses settings that suit the data, so that a first try with one's own pictures works. The
// recipes for CIFAR-10 and for the generated pictures are fixed. A flag always overrides the
// choice.
#include <algorithm>
#include <bit>

#include "tern/apps/train_cifar/program.h"
#include "tern/core/base/error.h"

namespace tern::apps::train_cifar {
namespace {

// Digits are easy for a small gMLP. Convolutions learn more from few pictures: docs/choosing.md.
const char* usual_model(const std::string& kind) {
  return kind == "MNIST" ? "gmlp-small" : "airbench94";
}

TrainOptions recipe_for(const std::string& kind, const std::string& model) {
  TrainOptions o = default_options(model);
  if (model == "airbench94") return o;
  o.lr = 1e-3;
  o.schedule = "cosine";
  o.weight_decay = 0.05;
  o.decay_all = false;
  o.clip = 1;
  if (kind == "MNIST") return o;
  o.label_smoothing = 0.1;
  o.augment = "standard";
  return o;
}

bool can_be_made(const TrainOptions& o) {
  try {
    make_untrained(o);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The side of pictures: the model's own, else one that suits the pictures and that patches can
// tile.
int64_t side_for(TrainOptions o, const std::string& kind) {
  if (const auto run = run_of_weights(o.init)) return run->form.side;
  const ClassifierEntry& model = find_classifier(o.model);
  if ((model.side > datasets::kImageSide && !model.any_side) || !o.init.empty()) return model.side;
  o.form.side =
      kind.empty() ? datasets::kImageSide : datasets::usual_side(o.data, kind, folder_reading(o));
  if (!can_be_made(o)) o.form.side += 4;  // 28 becomes 32, which patches of 8 can tile
  return o.form.side;
}

}  // namespace

bool choose_model(TrainOptions& o, const GivenKeys& given) {
  const std::string kind = o.data.empty() ? "" : datasets::labelled_kind(o.data);
  const bool fixed = kind.empty() || kind == "CIFAR-10";
  const bool model_given = is_one_of(given, "model");
  const bool usual = !model_given || o.model == usual_model(kind) || o.model == "gmlp-stem";
  if (usual && !fixed) {
    const bool known = model_given || !o.init.empty();  // by the weights to start from
    TrainOptions chosen = recipe_for(kind, known ? o.model : usual_model(kind));
    copy_settings(given, o, chosen);
    o = chosen;
  }
  // gmlp-stem on scikit-learn's digits, 12 epochs: 98.3 % right without flips, 95.0 % with flips.
  const bool unknown = kind == "pictures" || kind == "MNIST";  // letters, digits or signs?
  const bool augments = o.augment != "none" && !is_one_of(given, "augment");
  if (unknown && augments && !is_one_of(given, "flip")) o.flip = false;
  if (!o.flip || o.augment == "none") {
    if (!is_one_of(given, "alternate_flips")) o.alternate_flips = false;
    if (!is_one_of(given, "tta")) o.tta = "none";  // the other views are mirrored
  }
  check(!is_one_of(given, "flip") || o.augment != "none",
        "--flip and --no-flip would change nothing: the augmentation is none; give --augment");
  if (!is_one_of(given, "pictures.side")) o.form.side = side_for(o, kind);
  return usual || fixed;
}

void choose_length(TrainOptions& o, const GivenKeys& given, const LabelledPictures& data) {
  if (data.kind == "CIFAR-10") return;
  const int64_t images = std::max<int64_t>(trained_images(o, data.train.size()), 1);
  // About 16 steps per epoch, and enough epochs for about 30,000 pictures.
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(images) / 16));
  const auto usual = static_cast<double>(default_options(o.model).batch);
  if (!is_one_of(given, "batch")) o.batch = std::clamp<int64_t>(power, 8, 64);
  if (o.optimizer == "sgd" &&
      !is_one_of(given, "lr"))  // Goyal et al. 2017, "Accurate, Large Minibatch SGD"
    o.lr *= static_cast<double>(o.batch) / usual;
  const bool length_given = is_one_of(given, "epochs") || is_one_of(given, "steps");
  if (!length_given) o.epochs = std::clamp<int64_t>(30'000 / images, 10, 100);
  if (!o.init.empty()) {  // pretrained weights need less training
    if (!is_one_of(given, "lr")) o.lr = o.optimizer == "sgd" ? o.lr / 10 : std::min(o.lr, 1e-4);
    if (!length_given) o.epochs = std::max<int64_t>(o.epochs / 3, 5);
  }
  if (!is_one_of(given, "warmup") && o.schedule != "constant")
    o.warmup = run_steps(o, total_steps(o, data.train.size())) / 20;
}

}  // namespace tern::apps::train_cifar
