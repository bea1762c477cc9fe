// What a language model is: its family and sizes, and the recipe that trained it. Stored in a model
// folder as lm.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/training_options.h"

namespace tern::apps::lm {

/// The model that fills gaps. All others continue texts: family.h.
inline constexpr const char* kBert = "bert";

/// The token that stands between documents and ends them, and its text as other programs write it.
inline constexpr const char* kEndOfText = "<|endoftext|>";

/// Sizes of a model. What a family (family.h) does not have is ignored.
struct ModelConfig {
  std::string model = "gpt";
  int64_t vocab = 0;
  int64_t context = 128;  ///< tokens that the model sees at a time
  int64_t layers = 4, dim = 128, heads = 4;
  int64_t kv_heads = 0;       ///< 0: as many as heads
  int64_t attention_dim = 0;  ///< channels of an aMLP's tiny attention; 0: none
  int64_t ffn = 0;            ///< hidden units; 0: four times dim
  double dropout = 0.1;
  bool tie = true;    ///< the head is the table of embeddings
  bool bias = true;   ///< of matrices and norms
  double eps = 1e-5;  ///< of the norms
  double rope_base = 1e4;
  std::string recompute = "none";  ///< nn::Recompute; in files it is TrainConfig::memory_use's
};

/// A training: model, data and recipe.
struct TrainConfig : TrainingOptions {
  std::vector<std::string> text, valid;  ///< files; no `text`: generated stories
  double hold_out = 0.05;                ///< share of the text that is held out for validation
  std::string documents = kEndOfText;    ///< mark between the documents of a file; empty: none
  int64_t documents_found = 0;           ///< in the text: 1 without a mark, if it is one file
  int64_t vocab_size = 2048;             ///< of a new tokenizer, with <|endoftext|>
  std::string tokenizer;                 ///< folder of a tokenizer to use instead
  bool cased = false;                    ///< bert: WordPiece keeps capitals and accents
  bool pairs = true;                     ///< bert: learns the next sentence too
  ModelConfig model;
  int64_t parts = 1;  ///< epochs that a pass over the text is cut into
  int64_t batch = 16;

  TrainConfig() {
    warmup = 100;
    beta2 = 0.99;
    weight_decay = 0.1;
  }
};

/// Without files, the stories of grammar.h are the text.
inline bool is_demo(const TrainConfig& c) { return c.text.empty(); }

/// The defaults on such stories: about a minute on two cores.
TrainConfig story_defaults(TrainConfig config);

/// Their rows (apps/common/settings.h).
void settings(Settings& settings, ModelConfig& config);
void settings(Settings& settings, TrainConfig& config);
/// Error where they do not go together.
void check_config(const TrainConfig& config);

/// Error unless every size is within its bounds: a file of another program may say anything.
void check_sizes(const ModelConfig& config);

}  // namespace tern::apps::lm
