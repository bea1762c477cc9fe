// The training of a translation model, step by step, without files and terminal: everything that
// decides how a run goes on is in here, and can be taken out and put back exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/common/training_run.h"
#include "tern/apps/translate/translator.h"
#include "tern/optim/ema.h"
#include "tern/optim/optimizer.h"
#include "tern/optim/schedule.h"

namespace tern::apps {

/// One line of log.jsonl.
struct EpochScores {
  int64_t epoch = 0;        ///< 1, 2, ...
  double train_loss = 0;    ///< mean of a token, with label smoothing if that is on
  double valid_loss = 0;    ///< mean of a token, without; NaN without validation pairs, as are:
  double valid_ppl = 0;     ///< its exponential
  double valid_bleu = 0;    ///< 13a, of greedy translations
  double tokens_per_s = 0;  ///< target tokens of training, <eos> counted
  double lr = 0, seconds = 0;
};

/// With the tensors, the whole state of a run.
struct TranslationState {
  int64_t step = 0;     ///< of the optimizer
  int64_t batch = 0;    ///< batches taken in this epoch
  double loss_sum = 0;  ///< over the tokens of this epoch
  int64_t tokens = 0, pairs = 0;
  double train_seconds = 0, test_seconds = 0;
  std::vector<EpochScores> history = {};
};

std::string state_to_json(const TranslationState& state);
TranslationState state_from_json(const std::string& json);
/// Line of log.jsonl, without its end.
std::string log_line(const EpochScores& epoch);

/// What the validation gave.
struct Validation {
  double loss = 0, bleu = 0;
  std::vector<std::string> translations;  ///< of the validation's pairs, greedy
};

class TranslationTrainer {
 public:
  TranslationTrainer(const TrainConfig& config, const Corpus& corpus, const Tokenizers& tokenizers);
  TranslationTrainer(const TranslationTrainer&) = delete;  // the optimizer holds the weights
  TranslationTrainer& operator=(const TranslationTrainer&) = delete;

  /// One step of the optimizer, on config.accumulate batches. Throws Diverged before weights are
  /// changed. REQUIRES: !epoch_trained().
  void train_step();
  bool epoch_trained() const { return state_.batch >= loader_.batches_per_epoch(); }
  /// Loss and BLEU of the weights that count on the validation's pairs; nothing if `progress`
  /// stopped it, and loss and bleu NaN if there are none.
  std::optional<Validation> validate(const TranslationProgress& progress = {});
  /// Writes the epoch into the history. REQUIRES: epoch_trained().
  const EpochScores& close_epoch(const Validation& validation);
  bool finished() const { return std::ssize(state_.history) >= config_.epochs; }
  /// Whether the epoch closed last is the best so far: by validation, the last one without.
  bool last_is_best() const;
  /// The best epoch. REQUIRES: one is closed.
  const EpochScores& best_epoch() const;

  /// As apps/train_cifar/trainer.h. The tensors are the trainer's own: write them before going on.
  SafeTensors state() const;
  void load_state(const SafeTensors& state, const std::string& path);
  /// The weights that count (averaged ones with config.ema), by the names of the models.
  NamedTensors weights() const;
  /// Runs f with the weights that count, in evaluation mode.
  void with_counting_weights(const std::function<void()>& f);

  const TrainConfig& config() const { return config_; }
  const Corpus& corpus() const { return corpus_; }
  const Tokenizers& tokenizers() const { return tokenizers_; }
  const TranslationModel& model() const { return model_; }
  TranslationState& progress() { return state_; }
  const TranslationState& progress() const { return state_; }
  int64_t epoch() const { return std::ssize(state_.history) + 1; }
  int64_t batches_per_epoch() const { return loader_.batches_per_epoch(); }
  data::BleuOptions bleu_options() const;

 private:
  std::vector<data::PairBatch> next_batches();
  void load_progress(const std::string& json);

  TrainConfig config_;
  const Corpus& corpus_;
  const Tokenizers& tokenizers_;
  TranslationModel model_;
  data::Loader<data::PairBatch> loader_;
  optim::AdamW optimizer_;
  optim::Schedule schedule_;
  std::optional<optim::Ema> ema_;
  TranslationState state_;
  bool graph_checked_ = false;
};

}  // namespace tern::apps
