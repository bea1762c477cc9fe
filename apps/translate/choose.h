// Settings of the preset "own" that depend on the data.
#pragma once

#include <vector>

#include "tern/apps/translate/corpus.h"

namespace tern::apps::translate {

/// Whether most letters of the target sides also occur in the source sides, so that one vocabulary
/// suits both languages.
bool have_same_letters(const std::vector<datasets::SentencePair>& pairs);

/// Chooses sizes, vocabulary, batches and epochs by the pairs, where no flag gives them.
void choose_by_pairs(TrainConfig& config, const GivenKeys& given, const PairFiles& files);
/// Chooses the warm-up by the steps of the whole run, and without a limit on lengths a batch that
/// has room for the longest pair.
void choose_after_encoding(TrainConfig& config, const GivenKeys& given, const Corpus& corpus);

}  // namespace tern::apps::translate
