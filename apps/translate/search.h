// Greedy and beam search for the translations of sentences.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tern/apps/translate/model.h"
#include "tern/data/text/pairs/lexicon.h"
#include "tern/decode/packed_transformer.h"
#include "tern/decode/step_model.h"

namespace tern::apps::translate {

struct SearchOptions {
  int64_t beam = 1;    ///< number of hypotheses; 1: greedy
  double alpha = 0.6;  ///< strength of the length penalty
  int64_t n_best = 1;
  bool unknown = false;  ///< allow <unk> in translations
  bool int8 = false;     ///< transformer: 8-bit weights and products
  bool int4 = false;     ///< transformer: 4-bit weights
  /// Transformer: consider only the N best translations of each source token in the lexicon; 0: all
  /// words.
  int64_t shortlist = 0;
  std::shared_ptr<const datasets::Lexicon> lexicon{};
  /// If false, greedy search with a transformer is faster and gives NaN as log_prob and score.
  bool log_probs = true;
};

/// Called with the number of sentences begun; returning false stops the search.
using TranslationProgress = std::function<bool(int64_t done)>;

/// Translates with a model's present weights. The constructor packs the weights of a transformer,
/// as int8, int4 or in the matmul_precision() of its thread.
class Search {
 public:
  /// REQUIRES: the model outlives this object and is in evaluation mode. Error: int8, int4 or a
  /// shortlist for a model that is no transformer, two of int8, int4 and bf16, a shortlist without
  /// a lexicon for the model's vocabularies.
  Search(const TranslationModel& model, const SearchOptions& options);
  /// Takes ownership of the model, and frees the weights of a transformer while packing them.
  Search(TranslationModel&& model, const SearchOptions& options);
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// The translations of each source (ids without <eos>), best first. ModelConfig::length_ratio
  /// limits their length. An empty source has one empty translation. Empty if progress stopped it.
  std::vector<std::vector<decoding::Hypothesis>> operator()(
      std::span<const std::vector<int64_t>> sources,
      const TranslationProgress& progress = {}) const;

 private:
  using Lists = std::vector<std::vector<decoding::Hypothesis>>;
  std::vector<int64_t> limits(std::span<const std::vector<int64_t>> sources) const;
  Lists in_slots(std::span<const std::vector<int64_t>> sources,
                 const TranslationProgress& progress) const;
  Lists in_batches(std::span<const std::vector<int64_t>> sources,
                   const TranslationProgress& progress) const;
  Lists one_batch(std::span<const std::vector<int64_t>> sources) const;
  void check_options() const;
  void pack(auto&& transformer);

  std::optional<TranslationModel> own_;
  const TranslationModel& model_;
  SearchOptions options_;
  std::optional<decoding::PackedTransformer> packed_;
};

}  // namespace tern::apps::translate
