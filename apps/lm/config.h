// The configuration of a language model: family, sizes, and the recipe that trained it. A model
// folder stores it as lm.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/training/training_options.h"
#include "tern/data/text/tokenizer/language_tokenizer.h"

namespace tern::apps::lm {

/// The model that fills gaps. All others, which continue texts, are in family.h.
inline constexpr const char* kBert = "bert";

using datasets::kEndOfText;

/// Sizes of a model. A family (family.h) ignores sizes that it does not have.
struct ModelConfig {
  std::string model = "gpt";
  int64_t vocab = 0;
  int64_t context = 128;  ///< context length in tokens
  int64_t layers = 4, dim = 128, heads = 4;
  int64_t kv_heads = 0;       ///< heads of keys and values; 0: the same as heads
  int64_t attention_dim = 0;  ///< channels of an aMLP's tiny attention; 0: none
  int64_t ffn = 0;            ///< hidden units; 0: four times dim
  double dropout = 0.1;
  bool tie = true;    ///< the head shares the weights of the embeddings
  bool bias = true;   ///< matrices and norms have biases
  double eps = 1e-5;  ///< of the norms
  double rope_base = 1e4;
  /// The config.json of a published model, which has more options than there are sizes here. Of the
  /// sizes then only context and dropout count; the others repeat what it says. For a bert it says
  /// only attention's dropout.
  std::string published = {};
  std::string recompute = "none";  ///< nn::Recompute; files have it in TrainConfig::memory_use
};

/// A training: model, data and recipe.
struct TrainConfig : TrainingOptions {
  std::vector<std::string> text, valid;  ///< files; no `text`: generated stories
  double hold_out = 0.05;                ///< share of the text that is held out for validation
  std::string documents = kEndOfText;    ///< mark between the documents of a file; empty: none
  int64_t documents_found = 0;           ///< number of documents in the text
  int64_t vocab_size = 2048;             ///< of a new tokenizer, with <|endoftext|>
  std::string tokenizer;                 ///< folder of a tokenizer to use instead
  bool published_tokenizer = false;      ///< LanguageTokenizer::is_published()
  bool cased = false;                    ///< bert: WordPiece keeps capitals and accents
  bool pairs = true;                     ///< bert: also trains next-sentence prediction
  ModelConfig model;
  int64_t parts = 1;  ///< epochs per pass over the text
  int64_t batch = 16;
  int64_t window = 0;  ///< tokens of a training window; 0: the model's context

  int64_t window_tokens() const { return window ? window : model.context; }

  TrainConfig() {
    warmup = 100;
    beta2 = 0.99;
    weight_decay = 0.1;
  }
};

/// Fine-tuning (--from): the usual learning rate, and the longest window unless --context gives it.
inline constexpr double kFineTuneRate = 5e-5;
inline constexpr int64_t kFineTuneWindow = 1024;
/// The rate of --optimizer muon without --from. A bert, which normalises after each sum, learns
/// nothing from real text at a gpt's rate; from the stories of grammar.h it does.
inline constexpr double kMuonRate = 5e-3, kBertMuonRate = 1.5e-3;

/// Whether the text is the stories of grammar.h, because no files were given.
inline bool is_demo(const TrainConfig& c) { return c.text.empty(); }

/// The defaults for these stories: about a minute of training on two cores.
TrainConfig story_defaults(TrainConfig config);

/// Lists the settings of a configuration (apps/common/command_line/settings.h).
void settings(Settings& settings, ModelConfig& config);
void settings(Settings& settings, TrainConfig& config);
/// Error if settings contradict each other.
void check_config(const TrainConfig& config);

/// Error unless every size is within its bounds. For sizes from files of other programs.
void check_sizes(const ModelConfig& config);

}  // namespace tern::apps::lm
