// What a translation model is: its kind and sizes, and the recipe that trained it. Stored in a
// model folder as config.json and in checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/epoch_end.h"
#include "tern/apps/common/memory_options.h"
#include "tern/train/schedule.h"

namespace tern::apps::translate {

/// Sizes of a model. What a kind does not have is ignored.
struct ModelConfig {
  std::string model = "transformer";  ///< transformer, bahdanau, seq2seq
  std::string form = "paper";         ///< bahdanau: paper or d2l
  int64_t layers = 3;                 ///< of encoder and decoder; bahdanau in the paper's form: 1
  int64_t dim = 256;                  ///< width; of recurrent models the embedding's
  int64_t hidden = 256;               ///< units of recurrent models
  int64_t heads = 8, ffn = 512;       ///< transformer
  bool norm_first = false;            ///< transformer: pre-norm
  bool final_norm = true;             ///< transformer: a norm at the end of each stack
  std::string tie = "none";           ///< transformer: none, target (its generator) or all tables
  bool reverse_source = false;        ///< seq2seq: the encoder reads backwards
  double dropout = 0.1;
  int64_t source_vocab = 0, target_vocab = 0;
  /// A translation of S tokens has at most length_ratio S + 6 tokens, the end included. Measured on
  /// the training pairs.
  double length_ratio = 2;
  std::string recompute = "none";  ///< nn::Recompute; in files it is TrainConfig::memory_use's
};

/// What is trained on what, and how.
struct TrainConfig {
  std::string pairs;                       ///< TSV file
  std::string source, target;              ///< line-aligned files, instead of pairs
  std::string valid_source, valid_target;  ///< empty: pairs are held out
  bool reverse = false;                    ///< translate from the second language to the first
  int64_t first = 0;                       ///< only the first N pairs; 0: all
  int64_t hold_out = -1;                   ///< pairs held out for validation; -1: 5 %, at most 1000
  int64_t max_length = 100;                ///< in tokens; longer pairs are left out
  std::string tokens = "words";            ///< words, bpe, d2l
  int64_t bpe = 8000;                      ///< merges
  bool shared = false;                     ///< one vocabulary for both languages
  int64_t min_freq = 2;                    ///< rarer words are unknown
  bool lowercase = true;
  std::string preset;
  ModelConfig model;
  int64_t epochs = 10, batch = 128, batch_tokens = 0;
  double lr = 5e-4;
  std::string schedule = "constant";  ///< see train::schedule_names
  int64_t warmup = 0;                 ///< steps
  double beta2 = 0.999, weight_decay = 0;
  double label_smoothing = 0;
  double clip = 1;
  double ema = 0;
  int64_t accumulate = 1;
  std::string best =
      "loss";  ///< of the validation, what decides which weights are kept: loss, bleu
  uint64_t seed = 0;
  std::string precision = "f32";  ///< of matrix products
  MemoryOptions memory_use;
  EpochEndOptions epoch_end;
};

/// Pairs made up by grammar.h, if no file is given.
inline bool is_demo(const TrainConfig& c) { return c.pairs.empty() && c.source.empty(); }

/// How the learning rate goes.
train::ScheduleOptions schedule_options(const TrainConfig& config);

/// Sets what a preset sets; Error if there is none of that name.
void apply_preset(const std::string& name, TrainConfig& config);
std::vector<std::string> preset_names();

/// As JSON; Error if the text is not such a configuration.
std::string to_json(const TrainConfig& config);
TrainConfig config_from_json(const std::string& json);

}  // namespace tern::apps::translate
