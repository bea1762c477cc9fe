// The training of an image classifier: data, model, optimizer, loss and evaluation for the loop
// (train/loop.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/train_cifar/classifier.h"
#include "tern/apps/train_cifar/config.h"
#include "tern/apps/train_cifar/evaluate.h"
#include "tern/apps/train_cifar/images.h"
#include "tern/optim/optimizer.h"
#include "tern/train/loop.h"

namespace tern::apps::train_cifar {

/// The model that the options name, with the weights of `init`, or random ones from the seed.
ImageClassifier make_model(const TrainOptions& options, bool says = true);
/// The same without memory and weights.
ImageClassifier make_untrained(TrainOptions options);

/// Of a training set of so many images: how many a run trains on, and its steps.
int64_t trained_images(const TrainOptions& options, int64_t images);
int64_t total_steps(const TrainOptions& options, int64_t images);

/// The loss of a batch. Adds its top-1 accuracy to `means`.
Tensor training_loss(const ImageClassifier& model, const TrainOptions& options,
                     const datasets::Batch& batch, training::Means& means);

/// Its metrics are train_loss, train_top1, test_loss and test_top1 to test_top5 (up to the number
/// of classes). With --hold-out they are valid_loss and valid_top1 to valid_top5, of the images
/// held out: these say which epoch is the best, and nothing sees the test set before test_best().
struct CifarTraining {
  /// `loop_options`: folder, lock, terminal, tensorboard and on_epoch; the rest is set here.
  CifarTraining(const TrainOptions& options, const LabelledPictures& data, ImageClassifier model,
                training::LoopOptions loop_options = {});
  CifarTraining(const CifarTraining&) = delete;
  CifarTraining& operator=(const CifarTraining&) = delete;

  /// Tests the model as it is, with a progress bar, on this rank or shared by those of `world`;
  /// nothing if a signal stopped it.
  std::optional<Evaluation> test(const std::string& label, dist::World* world = nullptr,
                                 Views views = Views::none);
  /// The set of `evaluation`: the images held out, if there are some, and else the test images.
  const datasets::Dataset<LabelledPicture>& evaluated_set() const;
  /// After a run with --hold-out or --tta: gives the model the best epoch's weights, the last one's
  /// where none are held out, and tests it with the views of --tta. False if a signal stopped it.
  /// The training cannot go on from there.
  bool test_best();
  /// What the report shows of the model now.
  models::Heatmaps heatmaps() const;
  /// Of the first of evaluated_set(); none if the model has none.
  models::PatchMaps patch_maps(int64_t images) const;

  TrainOptions options;
  std::string kind, note;  ///< of the data
  PictureForm form;
  datasets::Dataset<LabelledPicture> train_set, held_set, test_set;
  datasets::Loader<datasets::Batch> loader,
      evaluation_loader;  ///< the second is of evaluated_set()
  ImageClassifier model;
  std::unique_ptr<optim::Optimizer> optimizer;
  training::Learner learner;
  models::Heatmaps initial;              ///< of the model at the start
  std::optional<Evaluation> evaluation;  ///< of the epoch closed last, if it was closed here
  bool best_tested = false;              ///< it is that of test_best()
  training::Loop loop;

 private:
  void freeze_what_is_done();
  std::optional<training::Metrics> evaluate_epoch();
  void add_pictures(training::EventWriter& events, int64_t step);
  training::LoopOptions complete(training::LoopOptions loop_options);
};

}  // namespace tern::apps::train_cifar
