// The training of a gMLP on CIFAR-10, step by step, without files and terminal: everything that
// decides how a run goes on is in here, and can be taken out and put back exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/common/training_run.h"
#include "tern/apps/train_cifar/evaluate.h"
#include "tern/apps/train_cifar/history.h"
#include "tern/apps/train_cifar/options.h"
#include "tern/optim/ema.h"
#include "tern/optim/optimizer.h"
#include "tern/optim/schedule.h"

namespace tern::apps {

/// The model that the options name, with weights drawn from their seed or those of `init`.
models::Gmlp make_model(const TrainOptions& options);

/// Loads a safetensors file into a model of that name. Error if it does not fit.
void load_weights_of(const std::string& path, const std::string& name, models::Gmlp& model);

/// Of every byte of pictures and labels, so that a run goes on with the data it was started with.
std::string data_checksum(const data::Cifar10& data);

class Trainer {
 public:
  Trainer(const TrainOptions& options, const data::Cifar10& data, models::Gmlp model);
  Trainer(const Trainer&) = delete;  // the optimizer holds the model's weights
  Trainer& operator=(const Trainer&) = delete;

  /// One step of the optimizer; gives the loss. The first one compares what the loss depends on
  /// with the model's and the optimizer's parameters. Throws Diverged before weights are changed.
  /// REQUIRES: !epoch_trained().
  double train_step();
  /// All batches of the epoch in progress are done: it is to be tested and closed.
  bool epoch_trained() const;
  /// The weights that count (averaged ones with options.ema) on the test images.
  std::optional<Evaluation> test(const EvaluationProgress& progress = {});
  /// Writes the epoch into the history. REQUIRES: epoch_trained().
  const EpochRecord& close_epoch(const Evaluation& test);
  /// All epochs are closed.
  bool finished() const { return std::ssize(progress_.history) >= options_.epochs; }

  /// The whole state as tensors and texts. A trainer that loads it does bit for bit what this one
  /// would have done. The tensors are the trainer's own: write them before going on. Throws
  /// Diverged if a weight is not finite, so that such weights never replace good ones in a file.
  SafeTensors state() const;
  /// IoError naming `path` if the state is of another model or of other data.
  void load_state(const SafeTensors& state, const std::string& path);

  /// The weights that count, under the names of models/gmlp.h.
  NamedTensors weights() const;
  /// The spatial weights of every layer, at the start and now.
  std::vector<SpatialWeights> spatial_weights();

  const TrainOptions& options() const { return options_; }
  const models::Gmlp& model() const { return model_; }
  RunProgress& progress() { return progress_; }
  const RunProgress& progress() const { return progress_; }
  /// The number of the epoch in progress: 1, 2, ...
  int64_t epoch() const { return std::ssize(progress_.history) + 1; }
  int64_t steps_per_epoch() const { return loader_.batches_per_epoch(); }
  int64_t train_images() const { return train_.size(); }
  const data::Dataset<data::ImageSample>& test_set() const { return test_; }

 private:
  data::Batch next_batch();
  void count(const Tensor& logits, const data::Batch& batch, double loss);
  template <class F>
  void with_counting_weights(F f);
  void load_progress(const std::string& json);

  TrainOptions options_;
  std::string data_checksum_;
  data::Dataset<data::ImageSample> train_, test_;
  data::Loader<data::Batch> loader_;
  models::Gmlp model_;
  optim::AdamW optimizer_;
  optim::Schedule schedule_;
  std::optional<optim::Ema> ema_;
  std::vector<Tensor> initial_;  // the spatial weights at the start
  RunProgress progress_;
  bool graph_checked_ = false;
};

}  // namespace tern::apps
