// report.html of a translation model: one self-contained page.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/run_page.h"
#include "tern/apps/translate/translator.h"

namespace tern::apps::translate {

struct SampleTranslation {
  std::string source, reference, translation;
  double d2l = 0;               ///< d2l.ai's score, k = 2
  AttentionSentence attention;  ///< may have no groups
};
/// Of the first `count` pairs, greedy; the first two have their attention.
std::vector<SampleTranslation> sample_translations(const TranslationModel& model,
                                                   const Tokenizers& tokenizers,
                                                   const std::vector<data::SentencePair>& pairs,
                                                   size_t count);

/// The page as text (write it with write_file_atomically).
std::string make_report(const RunSummary& run, const std::vector<SampleTranslation>& samples);

}  // namespace tern::apps::translate
