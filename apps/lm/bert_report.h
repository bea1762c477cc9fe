// report.html of a BERT: one self-contained page.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/run_page.h"
#include "tern/apps/lm/fill.h"

namespace tern::apps::lm {

struct FilledSample {
  std::string masked, whole;  ///< what was given, and what stood there
  FilledText filled;
};

struct BertReport {
  RunSummary run;  ///< its best epoch: whose weights were kept
  std::vector<FilledSample> samples;
  AttentionSentence attention = {};  ///< may have no groups
};

/// The page as text (write it with write_file_atomically).
std::string make_report(const BertReport& report);

}  // namespace tern::apps::lm
