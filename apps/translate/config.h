// The configuration of a translation model: kind, sizes, pairs, and the recipe that trained it. A
// model folder stores it as config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/training/training_options.h"

namespace tern::apps::translate {

/// Sizes of a model. A kind of model ignores those that it does not have.
struct ModelConfig {
  std::string model = "transformer";  ///< transformer, bahdanau, seq2seq
  std::string form = "paper";         ///< bahdanau: paper or d2l
  int64_t layers = 3;                 ///< of encoder and decoder; bahdanau in the paper's form: 1
  int64_t dim = 256;                  ///< width; in recurrent models the embeddings' width
  int64_t hidden = 256;               ///< units of recurrent models
  int64_t heads = 8, ffn = 512;       ///< transformer
  bool norm_first = false;            ///< transformer: pre-norm
  bool final_norm = true;             ///< transformer: a norm at the end of each stack
  std::string tie = "none";           ///< transformer: tie none, target and generator, or all
  bool reverse_source = false;        ///< seq2seq: the encoder reads backwards
  double dropout = 0.1;
  int64_t source_vocab = 0, target_vocab = 0;
  /// A translation of S tokens has at most length_ratio S + 6 tokens, including <eos>. Measured on
  /// the training pairs.
  double length_ratio = 2;
};

/// Data, model and recipe of a training.
struct TrainConfig : TrainingOptions {
  std::string pairs;                       ///< TSV file
  std::string source, target;              ///< line-aligned files, instead of pairs
  std::string valid_source, valid_target;  ///< empty: pairs are held out
  bool reverse = false;                    ///< translate from the second language to the first
  int64_t first = 0;                       ///< only the first N pairs; 0: all
  int64_t hold_out = -1;                   ///< pairs held out for validation; -1: 5 %, at most 1000
  int64_t max_length = 100;                ///< in tokens; longer pairs are left out
  std::string tokens = "words";            ///< words, bpe, d2l
  int64_t bpe = 8000;                      ///< merges
  double bpe_dropout = 0;                  ///< share of merges that training skips
  bool shared = false;                     ///< one vocabulary for both languages
  int64_t min_freq = 2;                    ///< rarer words are unknown
  bool lowercase = true;
  std::string preset;
  ModelConfig model;
  int64_t batch = 128, batch_tokens = 0;
  double label_smoothing = 0;
  double r_drop = 0;          ///< weight of the divergence of two passes (training_loss)
  std::string best = "loss";  ///< metric of the validation that chooses the weights to keep

  TrainConfig() {
    optimizer = "adam";
    lr = 5e-4;
    schedule = "constant";
  }
};

/// Lists the settings (apps/common/command_line/settings.h).
void settings(Settings& settings, TrainConfig& config);
/// Error if settings contradict each other.
void check_config(const TrainConfig& config);

/// Whether the pairs are generated (corpus.h), because no file is given.
inline bool is_demo(const TrainConfig& c) { return c.pairs.empty() && c.source.empty(); }
inline bool is_lowercase(const TrainConfig& c) { return c.lowercase || c.tokens == "d2l"; }

/// The preset for the user's files. choose.h completes its settings.
inline constexpr const char* kOwn = "own";

/// Applies a preset; does nothing if no preset has that name.
void apply_preset(const std::string& name, TrainConfig& config);
std::vector<std::string> preset_names();

}  // namespace tern::apps::translate
