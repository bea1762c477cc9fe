// How sentences are translated with a model.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tern/apps/translate/model.h"
#include "tern/data/text/lexicon.h"
#include "tern/decode/packed_transformer.h"
#include "tern/decode/step_model.h"

namespace tern::apps::translate {

/// How a translation is looked for.
struct SearchOptions {
  int64_t beam = 1;    ///< 1: greedy
  double alpha = 0.6;  ///< of the length penalty
  int64_t n_best = 1;
  bool unknown = false;  ///< whether <unk> may be said
  bool int8 = false;     ///< transformer: products of rounded numbers
  /// Transformer: only words that the lexicon gives so many a source token of are looked at; 0:
  /// all.
  int64_t shortlist = 0;
  std::shared_ptr<const data::Lexicon> lexicon{};
  /// false: greedy search of a transformer leaves out log_prob and score, which costs less; NaN
  bool log_probs = true;
};

/// How many sentences are begun; false stops.
using TranslationProgress = std::function<bool(int64_t done)>;

/// A way to translate with a model as it is now: a transformer's weights are packed once, for all
/// sentences that follow, as int8 or in the matmul_precision() of the thread that makes this.
class Search {
 public:
  /// REQUIRES: the model outlives this and is in evaluation mode. Error: int8 or a shortlist of a
  /// model that is no transformer, int8 in bf16, a shortlist without a lexicon of the vocabularies.
  Search(const TranslationModel& model, const SearchOptions& options);
  /// The same of a model that does nothing else from now on: a transformer's weights are freed as
  /// they are packed.
  Search(TranslationModel&& model, const SearchOptions& options);
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// Translations of sources (ids without <eos>), best first, in their order. Lengths are limited
  /// by config.h's length_ratio; an empty source has one empty translation. Stopped by progress:
  /// empty.
  std::vector<std::vector<decoding::Hypothesis>> operator()(
      std::span<const std::vector<int64_t>> sources,
      const TranslationProgress& progress = {}) const;

 private:
  using Lists = std::vector<std::vector<decoding::Hypothesis>>;
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
