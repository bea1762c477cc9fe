// The training of a translation model, based on the loop in train/loop.h, and its report.html.
#pragma once

#include <memory>
#include <optional>

#include "tern/apps/common/pages/run_page.h"
#include "tern/apps/translate/translator.h"
#include "tern/optim/optimizer.h"
#include "tern/train/loop.h"

namespace tern::apps::translate {

datasets::Loader<datasets::PairBatch> training_batches(const TrainConfig& config,
                                                       const Corpus& corpus);
/// Steps of the whole run on this corpus.
int64_t total_steps(const TrainConfig& config, const Corpus& corpus);

/// The training loss: the cross entropy, with label smoothing if that is on. config.r_drop adds the
/// divergence of two passes over the batch, which drop other elements:
/// (CE_1 + CE_2) / 2 + r_drop / 4 (KL(p_1 || p_2) + KL(p_2 || p_1)), each the mean over the
/// target's tokens. It is half of equation 4 in Liang et al. 2021, "R-Drop", with alpha = r_drop.
Tensor training_loss(const TranslationModel& model, const TrainConfig& config,
                     const datasets::PairBatch& batch);

/// A training. Its metrics: train_loss (training_loss, mean per token),
/// valid_loss (without smoothing), valid_ppl (exp(valid_loss)), valid_bleu (13a, of greedy
/// translations); the last three are NaN without validation pairs. REQUIRES: corpus and tokenizers
/// outlive it.
struct TranslationTraining {
  /// Uses the folder's part, how_to_resume and terminal of `loop_options`. The weights of the best
  /// epoch become model.safetensors. `resumed`: ignores config.from, since a checkpoint is loaded
  /// afterwards.
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
  void remove_tuned() const;
};

struct SampleTranslation {
  std::string source, reference, translation;
  double chrf = 0;                   ///< of this sentence, 0 to 100
  AttentionSentence attention = {};  ///< may have no groups
};
/// Three lines for a terminal.
std::string sample_text(const SampleTranslation& s);
/// `count` indices of pairs, or all: spread evenly from the shortest source to the longest.
std::vector<size_t> evenly_by_length(const std::vector<datasets::SentencePair>& pairs,
                                     size_t count);

/// Examples from the validation pairs for the report.
struct TranslationExamples {
  std::vector<SampleTranslation> even;   ///< by length; two of them have their attention
  std::vector<SampleTranslation> worst;  ///< the lowest chrF first
  size_t searched = 0;                   ///< number of pairs that `worst` was chosen from
};
TranslationExamples translation_examples(const TranslationModel& model,
                                         const Tokenizers& tokenizers,
                                         const std::vector<datasets::SentencePair>& pairs,
                                         bool lowercase);

/// The page as text (write it with write_file_atomically). `valid_pairs`: number of validation
/// pairs.
std::string make_report(const RunSummary& run, const TranslationExamples& examples,
                        int64_t valid_pairs);

}  // namespace tern::apps::translate
