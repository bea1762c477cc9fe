// report.html of a translation model: one self-contained page.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/attention_view.h"
#include "tern/apps/common/run_page.h"

namespace tern::apps::translate {

struct SampleTranslation {
  std::string source, reference, translation;
  double d2l = 0;               ///< d2l.ai's score, k = 2
  AttentionSentence attention;  ///< may have no groups
};

struct TranslationReport {
  RunSummary run;  ///< its best epoch: whose weights were kept
  std::vector<SampleTranslation> samples;
};

/// The page as text (write it with write_file_atomically).
std::string make_report(const TranslationReport& report);

}  // namespace tern::apps::translate
