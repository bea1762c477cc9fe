// A model with its tokenizers: text in, translations out. A model folder holds it as
// model.safetensors, config.json, source.json and target.json (one vocabulary.json where both sides
// share it), and shortlist.safetensors where `translate shortlist` was there.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tern/apps/translate/corpus.h"
#include "tern/apps/translate/model.h"
#include "tern/data/scores/bleu.h"

namespace tern::apps::translate {

/// A translation of a line of text.
struct TranslatedText {
  std::string text;
  std::vector<int64_t> tokens;     ///< ids of the target, without <eos>
  double log_prob = 0, score = 0;  ///< NaN: left out
};

/// The best translations of every line, each of them one line that a terminal can show, in the
/// order of the lines. A line without tokens has one empty translation. Stopped: empty.
std::vector<std::vector<TranslatedText>> translate_lines(const Search& search,
                                                         const Tokenizers& tokenizers,
                                                         std::span<const std::string> lines,
                                                         const TranslationProgress& progress = {});
/// The same for a model as it is now.
std::vector<std::vector<TranslatedText>> translate_lines(const TranslationModel& model,
                                                         const Tokenizers& tokenizers,
                                                         std::span<const std::string> lines,
                                                         const SearchOptions& search,
                                                         const TranslationProgress& progress = {});

/// Mean loss of a token, <eos> counted, without smoothing; NaN without pairs.
double token_loss(const TranslationModel& model, const data::EncodedPairs& pairs,
                  const TranslationProgress& progress = {});

/// What is said of translations.
struct Scores {
  data::BleuScore bleu;
  data::BleuOptions options;
  double chrf = 0;  ///< 0 to 100
  double d2l = 0;   ///< mean of d2l.ai's score with k = 2, 0 to 1
};
Scores score_lines(std::span<const std::string> hypotheses, std::span<const std::string> references,
                   const data::BleuOptions& options);
/// d2l.ai's score (k = 2) of two sentences, both in d2l.ai's form.
double d2l_score(const std::string& hypothesis, const std::string& reference);
/// A line each: BLEU with its signature, chrF, d2l bleu.
std::string to_text(const Scores& scores);

/// Files of a model folder.
struct ModelFiles {
  std::string folder;
  std::string weights() const { return folder + "/model.safetensors"; }
  std::string config() const { return folder + "/config.json"; }
  std::string lexicon() const { return folder + "/shortlist.safetensors"; }
  std::string vocabulary(const char* side) const { return folder + "/" + side + ".json"; }
};

/// Writes config.json and the tokenizers.
void save_description(const ModelFiles& files, const TrainConfig& config,
                      const Tokenizers& tokenizers);
/// config.json alone.
void save_config(const ModelFiles& files, const TrainConfig& config);
TrainConfig load_config(const ModelFiles& files);
Tokenizers load_tokenizers(const ModelFiles& files, const TrainConfig& config);

struct Translator {
  TrainConfig config;
  Tokenizers tokenizers;
  TranslationModel model;  ///< in evaluation mode
};

/// A transformer's folder's lexicon where the search has a shortlist; IoError if there is none, an
/// Error if it has fewer translations of a token.
SearchOptions with_lexicon(SearchOptions search, const std::string& folder,
                           const TrainConfig& config);

/// Loads a model folder; IoError names the part that is missing or does not fit.
Translator load_translator(const std::string& folder);

}  // namespace tern::apps::translate
