// The settings of train_cifar with their help and checks, and the defaults of each model.
#include "tern/apps/train_cifar/config.h"

#include "tern/apps/train_cifar/classifier.h"
#include "tern/apps/train_cifar/views.h"
#include "tern/train/optimizer.h"

namespace tern::apps::train_cifar {
namespace {

constexpr Bounds kAlpha{0, 1000};

void add_data(Settings& s, TrainOptions& o) {
  s.group(Group::data);
  s.text("data", o.data, "DIR|TAR.GZ",
         "labelled pictures: CIFAR-10 or CIFAR-100 (binary files or .tar.gz), MNIST, or a folder "
         "with a folder of .png and .jpg files for each class; below train and test if there is a "
         "test set");
  s.toggle("exif_rotation", o.exif_rotation,
           "turn pictures in folders as their EXIF data say, so that those of phones stand upright")
      .flag("--exif-rotation,!--no-exif-rotation")
      .came_later([&o] { o.exif_rotation = false; })
      .only_if(!o.data.empty(), "it is for pictures of --data");
  s.toggle("skip_damaged", o.skip_damaged,
           "leave out pictures that cannot be read, and say which, rather than end with an error")
      .came_later();
  s.number("limit", o.limit, kAnyCount, "train and test on the first N images only; 0: all");
  s.number("hold_out", o.hold_out, kShare,
           "share of the training images that are held out to choose the best epoch, whose weights "
           "are tested at the end; 0: the last epoch's weights are the result")
      .came_later()
      .says(o.hold_out > 0, "hold-out {:g}", o.hold_out);
  s.number("label_smoothing", o.label_smoothing, kShare,
           "share of each target that is spread over all classes")
      .says(o.label_smoothing > 0, "label smoothing {:g}", o.label_smoothing);
  s.word("augment", o.augment, {"none", "translate", "standard", "strong"},
         "changes of training images: translate moves by up to 2 pixels, reflects at the borders "
         "and flips, standard crops and flips, strong adds RandAugment and cutout")
      .says(o.augment != "none", "augmentation {}{}", o.augment, o.flip ? "" : " without flips");
  s.toggle(
       "flip", o.flip,
       "flips of --augment, which mirror images left to right; where the augmentation of pictures "
       "of your own is chosen for you, it has none, because letters, digits and signs would "
       "suffer")
      .flag("--flip,!--no-flip")
      .came_later();
  s.toggle("alternate_flips", o.alternate_flips,
           "flips of --augment not at random: half of the images in even epochs, the others in odd "
           "ones, so that two epochs show each image both ways")
      .came_later()
      .only_if(o.augment != "none" && o.flip, "there are no flips: see --augment and --flip")
      .says(o.alternate_flips, "alternating flips");
  s.number("mixup", o.mixup, kAlpha, "alpha of mixup; 0: off")
      .says(o.mixup > 0, "mixup {:g}", o.mixup);
  s.number("cutmix", o.cutmix, kAlpha, "alpha of cutmix; 0: off")
      .says(o.cutmix > 0, "cutmix {:g}", o.cutmix);
  s.word("tta", o.tta, view_names(),
         "test-time augmentation: what the last test, --eval and --predict average the answers "
         "over: mirror: an image and its mirror image; translate: these, and both moved by a pixel "
         "(six times the work)")
      .came_later()
      .says(o.tta != "none", "tested with {}", views_text(views_named(o.tta)));
}

// Adds the form of the pictures and the names of the classes.
void add_form(Settings& s, TrainOptions& o) {
  PictureForm& f = o.form;
  s.group(Group::data);
  s.number("side", f.side, {8, 512}, "resize pictures to N x N; without this flag the data decide")
      .says(f.side != datasets::kImageSide, "pictures of {0} x {0}", f.side);
  s.number("channels", f.channels, {1, 3}, "").flag("");
  s.number("classes", f.classes, {2, 1e6}, "").flag("");
  s.texts("class_names", o.class_names, "", "").flag("");
  s.toggle("split_by_seed", o.split_by_seed, "").flag("").came_later();
  const char* const colors[] = {"red", "green", "blue"};
  for (size_t c = 0; c < 3; ++c) {
    s.number(std::string("mean_") + colors[c], f.normalization.mean[c], {0, 1}, "").flag("");
    s.number(std::string("std_") + colors[c], f.normalization.std[c], {0, 1, true}, "").flag("");
  }
}

}  // namespace

TrainOptions::TrainOptions() {
  lr = 1e-4;
  schedule = "constant";
  weight_decay = 0.01;
  decay_all = true;  // from the post that gMLP's recipe comes from
  clip = 0;
}

void settings(Settings& s, TrainOptions& o) {
  s.group(Group::model);
  s.word("model", o.model, classifier_names(), "what to train");
  s.group(Group::training);
  s.number("epochs", o.epochs, kCount, "passes over the training images")
      .says(true, "{} epoch{}", o.epochs, o.epochs == 1 ? "" : "s");
  s.number("batch", o.batch, kCount, "images per step").says(true, "batch {}", o.batch);
  s.toggle("drop_last", o.drop_last,
           "leave out the last batch of an epoch if it is not full, unless it is the only one")
      .came_later()
      .says(o.drop_last, "full batches only");
  add_data(s, o);
  s.group(Group::model);
  s.number("dropout", o.dropout, kShare, "dropout of the model")
      .says(true, "dropout {:g}", o.dropout);
  add_training_settings(s, o, {.optimizers = training::optimizer_names(), .details = true});
  s.find("decay_all")->came_later([&o] { o.decay_all = true; });  // as earlier versions always did
  s.inside(
      "pictures", [&] { add_form(s, o); }, true);
  s.group(Group::model);
  s.text("init", o.init, "DIR|FILE",
         "weights to start from: tern's, or timm's or torchvision's of a model here (safetensors, "
         ".pt; not resnetaa50 or resnetblur50, which look like resnet50); a head for other "
         "classes is left out")
      .says(!o.init.empty(), "weights from {}", o.init);
}

datasets::FolderReading folder_reading(const TrainOptions& o) {
  return {.upright = o.exif_rotation, .skip_damaged = o.skip_damaged};
}

void check_config(const TrainOptions& o) {
  check_training_options(o);
  check_held_out(o, o.hold_out > 0, "--hold-out");
}

TrainOptions default_options(const std::string& name) {
  const ClassifierEntry* const model = look_up_classifier(name);
  if (!model) return {};
  TrainOptions o = model->recipe;
  o.model = name;
  o.dropout = model->dropout;
  return o;
}

std::string other_defaults(const std::string& model) {
  const TrainOptions shown = find_classifier(model).recipe;
  std::string text, previous;
  for (const ClassifierEntry& e : classifiers()) {
    const std::string flags = flags_between(shown, e.recipe);
    if (!flags.empty() && flags == previous)
      text.insert(text.rfind(": --"), ", " + e.name);
    else if (!flags.empty())
      text += "\n" + e.name + ":" + flags;
    previous = flags;
  }
  return text.empty() ? "" : "\nOther models have other defaults:" + text;
}

void copy_settings(const GivenKeys& keys, TrainOptions from, TrainOptions& to) {
  const Settings source = settings_of(from);
  Settings target = settings_of(to);
  for (const Setting& s : source.rows())
    if (is_one_of(keys, s.key))
      std::visit(
          [&]<class T>(const T* value) { *std::get<T*>(target.find(s.key)->value) = *value; },
          s.value);
}

}  // namespace tern::apps::train_cifar
