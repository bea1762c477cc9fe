// The training of a language model that continues texts.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tern/apps/lm/family.h"
#include "tern/apps/lm/training.h"

namespace tern::apps::lm {

struct GptKind;
using LmTraining = Training<GptKind>;
using GptProgram = KindProgram<GptKind>;

/// Its metrics: train_loss (mean of a token), train_bits_per_byte, valid_loss, valid_ppl (its
/// exponential), valid_bits_per_byte; the last three are NaN without text for validation.
struct GptKind {
  using Model = LanguageModel;
  using Corpus = lm::Corpus;
  using Batch = data::WindowBatch;

  /// Opens what the folder `resumed` trains on, or makes it with that folder's tokenizer. For a new
  /// run, where that is empty, makes tokenizer, sizes and, near the folder `scratch`, the corpus.
  /// Whether something is held out.
  static bool encode(TrainConfig& config, const std::string& resumed, const std::string& scratch,
                     Corpus& corpus);
  static void save_missing(const ModelFiles& files, const Corpus& corpus) {
    corpus.file.keep(files.tokens());
  }
  static Model draw(const TrainConfig& config, const Corpus&) { return make_model(config); }
  static void load(const std::string& path, const Model& model) { model.load(path); }
  static std::array<Tensor*, 2> tensors(Batch& b) { return {&b.tokens, &b.targets}; }
  /// A batch of an epoch; none is larger.
  static Batch largest(data::Loader<Batch>& loader) { return loader.next().value(); }
  static double weight(const Batch& b) { return static_cast<double>(b.tokens.numel()); }
  static Tensor loss(const Model& model, const Batch& batch, const Corpus& corpus,
                     train::Means* means);
  static int64_t valid_tokens(const Corpus& c) { return c.valid.tokens; }
  static std::optional<train::Metrics> validate(const LmTraining& training);
  static std::string losses(const train::EpochRecord& epoch);
  static void add_pictures(const LmTraining& training, train::EventWriter& events, int64_t step);
  /// "gpt, 805,248 weights: 4 layers of 128 channels, ...".
  static std::string describe(const Model& model);
  static std::string data_text(const Corpus& corpus);
  static Ending ending(const TrainConfig& config, const Corpus& corpus, const train::Loop& loop,
                       const RunSummary& run);
};

}  // namespace tern::apps::lm
