// A model with its tokenizers: text in, translations and their attention out. A model folder has
// model.safetensors, config.json, source.json and target.json (one vocabulary.json if both sides
// share it), after `translate shortlist` also shortlist.safetensors, and after `translate tune`
// tuned.json.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/translate/corpus.h"
#include "tern/apps/translate/search.h"
#include "tern/data/scores/bleu.h"
#include "tern/dist/world.h"
#include "tern/train/run_folder.h"

namespace tern::apps::translate {

/// A translation of a line of text.
struct TranslatedText {
  std::string text;
  std::vector<int64_t> tokens;     ///< target ids, without <eos>
  double log_prob = 0, score = 0;  ///< NaN: not computed
};

/// The translations of each line, best first.
using Translations = std::vector<std::vector<TranslatedText>>;

/// The best translations of each line. Each is a single line without control characters. A line
/// without tokens has one empty translation. Empty if progress stopped it.
Translations translate_lines(const Search& search, const Tokenizers& tokenizers,
                             std::span<const std::string> lines,
                             const TranslationProgress& progress = {});

/// All attention of a line and its translation, with their words. No groups if a side has no tokens
/// or the model has no attention (seq2seq).
AttentionSentence explain(const TranslationModel& model, const Tokenizers& tokenizers,
                          const std::string& source, const TranslatedText& translation);

/// Mean loss per token, including <eos>, without smoothing; NaN without pairs. Empty if progress
/// stopped it. The ranks of `world` share the pairs and get the same numbers as one process.
std::optional<double> token_loss(const TranslationModel& model, const datasets::EncodedPairs& pairs,
                                 const TranslationProgress& progress = {},
                                 dist::World* world = nullptr);
/// The best translation of each line. Empty if progress stopped it. The ranks of `world` share the
/// lines.
std::optional<std::vector<std::string>> best_translations(const Search& search,
                                                          const Tokenizers& tokenizers,
                                                          std::span<const std::string> lines,
                                                          const TranslationProgress& progress,
                                                          dist::World* world);

/// Three lines: BLEU with its signature, chrF, the mean of d2l.ai's scores.
std::string score_text(std::span<const std::string> hypotheses,
                       std::span<const std::string> references,
                       const datasets::BleuOptions& options);

/// Save and load the parts of a model folder.
void save_tokenizers(const training::RunFolder& folder, const TrainConfig& config,
                     const Tokenizers& tokenizers);
/// IoError unless their sizes are those of the configuration.
Tokenizers load_tokenizers(const training::RunFolder& folder, const TrainConfig& config);
/// A model of this configuration with the weights of a folder. IoError if they do not fit.
TranslationModel load_weights(const training::RunFolder& folder, const TrainConfig& config);
std::string config_path(const training::RunFolder& folder);
TrainConfig load_config(const training::RunFolder& folder);
std::string lexicon_path(const training::RunFolder& folder);

inline constexpr Bounds kAlpha{0, 10};  ///< of SearchOptions::alpha

/// What `translate tune` found best for a model, in tuned.json of its folder. Training that keeps
/// other weights removes the file.
struct Tuned {
  double alpha = SearchOptions().alpha;
};
void settings(Settings& settings, Tuned& tuned);
std::string tuned_path(const training::RunFolder& folder);

struct Translator {
  TrainConfig config;
  Tokenizers tokenizers;
  TranslationModel model;  ///< in evaluation mode
};

/// Completes the options of a search by the model's folder: `alpha`, unless it is given, is the one
/// of `translate tune` if there is one, and a shortlist of a transformer gets its lexicon. IoError
/// if the folder has no lexicon; Error if it has fewer translations per token than the shortlist
/// needs.
SearchOptions completed(SearchOptions search, std::optional<double> alpha,
                        const training::RunFolder& folder, const TrainConfig& config);

/// Loads a model folder. IoError names the part that is missing or does not fit.
Translator load_translator(const std::string& folder);

}  // namespace tern::apps::translate
