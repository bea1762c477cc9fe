// The training of a translation model, on top of the loop (train/loop.h), and its report.html.
#pragma once

#include <memory>
#include <optional>

#include "tern/apps/common/run_page.h"
#include "tern/apps/translate/translator.h"
#include "tern/optim/optimizer.h"
#include "tern/train/loop.h"

namespace tern::apps::translate {

datasets::Loader<datasets::PairBatch> training_batches(const TrainConfig& config,
                                                       const Corpus& corpus);
/// Steps of the whole run on this corpus.
int64_t total_steps(const TrainConfig& config, const Corpus& corpus);

/// The loss that the training minimises.
Tensor training_loss(const TranslationModel& model, const TrainConfig& config,
                     const datasets::PairBatch& batch);

/// Its metrics: train_loss (mean of a token, with label smoothing if that is on), valid_loss
/// (without), valid_ppl (its exponential), valid_bleu (13a, of greedy translations); the last three
/// are NaN without validation pairs. Corpus and tokenizers must outlive it.
struct TranslationTraining {
  /// Uses of `loop_options` the folder's part, how_to_resume and terminal. The weights of the best
  /// epoch become model.safetensors. `resumed`: a checkpoint is loaded afterwards, not config.from.
  TranslationTraining(const TrainConfig& config, const Corpus& corpus, const Tokenizers& tokenizers,
                      training::LoopOptions loop_options = {}, bool resumed = false);
  TranslationTraining(const TranslationTraining&) = delete;
  TranslationTraining& operator=(const TranslationTraining&) = delete;

  TrainConfig config;
  const Corpus& corpus;
  const Tokenizers& tokenizers;
  TranslationModel model;
  datasets::Loader<datasets::PairBatch> loader;
  std::unique_ptr<optim::Optimizer> optimizer;
  training::Learner learner;
  training::Loop loop;

 private:
  std::optional<training::Metrics> validate();
  training::LoopOptions complete(training::LoopOptions loop_options);
  void add_pictures(training::EventWriter& events, int64_t step);
};

struct SampleTranslation {
  std::string source, reference, translation;
  double chrf = 0;                   ///< of this sentence, 0 to 100
  AttentionSentence attention = {};  ///< may have no groups
};
/// Three lines for a terminal.
std::string sample_text(const SampleTranslation& s);
/// `count` places in the pairs, or all: evenly from the shortest source to the longest.
std::vector<size_t> evenly_by_length(const std::vector<datasets::SentencePair>& pairs,
                                     size_t count);

/// What a report shows of the validation pairs.
struct TranslationExamples {
  std::vector<SampleTranslation> even;   ///< by length; two of them have their attention
  std::vector<SampleTranslation> worst;  ///< of `searched` pairs, the lowest chrF first
  size_t searched = 0;
};
TranslationExamples translation_examples(const TranslationModel& model,
                                         const Tokenizers& tokenizers,
                                         const std::vector<datasets::SentencePair>& pairs,
                                         bool lowercase);

/// The page as text (write it with write_file_atomically). `valid_pairs`: in validation.
std::string make_report(const RunSummary& run, const TranslationExamples& examples,
                        int64_t valid_pairs);

}  // namespace tern::apps::translate
