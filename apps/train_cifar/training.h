// The training of an image classifier: data, model, optimizer, loss and evaluation for the loop
// (train/loop.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tern/apps/train_cifar/classifier.h"
#include "tern/apps/train_cifar/config.h"
#include "tern/apps/train_cifar/evaluate.h"
#include "tern/apps/train_cifar/images.h"
#include "tern/optim/optimizer.h"
#include "tern/train/loop.h"

namespace tern::apps::train_cifar {

/// The model that the options name, with the weights of `init`, or random ones from the seed.
/// `says`: prints a message if the head of `init` is left out.
ImageClassifier make_model(const TrainOptions& options, bool says = true);
/// The same without memory and weights.
ImageClassifier make_untrained(TrainOptions options);

/// The number of images that a run trains on, its batches per epoch, and its steps, for a training
/// set of `images` images.
int64_t trained_images(const TrainOptions& options, int64_t images);
int64_t epoch_batches(const TrainOptions& options, int64_t images);
int64_t total_steps(const TrainOptions& options, int64_t images);

/// The loss of a batch. Adds its top-1 accuracy to `means`.
Tensor training_loss(const ImageClassifier& model, const TrainOptions& options,
                     const datasets::Batch& batch, training::Means& means);

/// A training. Its metrics are train_loss, train_top1, test_loss and test_top1 to test_top5 (up to
/// the number of classes). With --hold-out, valid_loss and valid_top1 to valid_top5 on the images
/// held out replace those of the test: they choose the best epoch, and the test set is not used
/// before test_best().
struct CifarTraining {
  /// `loop_options` has folder, lock, terminal, tensorboard and on_epoch; the constructor sets the
  /// rest.
  CifarTraining(const TrainOptions& options, const LabelledPictures& data, ImageClassifier model,
                training::LoopOptions loop_options = {});
  CifarTraining(const CifarTraining&) = delete;
  CifarTraining& operator=(const CifarTraining&) = delete;

  /// Tests the present model on evaluated_set(), with a progress bar. The ranks of `world` share
  /// the work. Empty if a signal stopped it.
  std::optional<Evaluation> test(const std::string& label, dist::World* world = nullptr,
                                 Views views = Views::none);
  /// The set of `evaluation`: the images held out, or the test images if there are none.
  const datasets::Dataset<LabelledPicture>& evaluated_set() const;
  /// For the end of a run with --hold-out or --tta: loads the best epoch's weights (the last
  /// epoch's if no images are held out) and tests them with the views of --tta. Returns false if a
  /// signal stopped it. Training cannot continue afterwards.
  bool test_best();
  /// The heatmaps of the present model, for the report.
  models::Heatmaps heatmaps() const;
  /// Maps of the patches of the first images of evaluated_set(); empty if the model has none.
  models::PatchMaps patch_maps(int64_t images) const;

  TrainOptions options;
  std::string kind, note;  ///< from the data
  PictureForm form;
  datasets::Dataset<LabelledPicture> train_set, held_set, test_set;
  datasets::Loader<datasets::Batch> loader,
      evaluation_loader;  ///< over evaluated_set()
  ImageClassifier model;
  std::unique_ptr<optim::Optimizer> optimizer;
  training::Learner learner;
  models::Heatmaps initial;              ///< of the untrained model
  std::optional<Evaluation> evaluation;  ///< of the last epoch; empty if this process ran none
  bool best_tested = false;              ///< whether `evaluation` is that of test_best()
  training::Loop loop;

 private:
  void freeze_what_is_done();
  std::optional<training::Metrics> evaluate_epoch();
  void add_pictures(training::EventWriter& events, int64_t step);
  training::LoopOptions complete(training::LoopOptions loop_options);
};

}  // namespace tern::apps::train_cifar
