// report.html of a language model: one self-contained page.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/attention_view.h"
#include "tern/apps/common/run_page.h"
#include "tern/apps/lm/family.h"
#include "tern/data/text/byte_bpe.h"

namespace tern::apps::lm {

struct SampleText {
  std::string prompt, text;  ///< what was given, and what the model went on with
};

struct LmReport {
  RunSummary run;  ///< its best epoch: whose weights were kept
  std::vector<SampleText> samples;
  AttentionSentence attention = {};          ///< may have no groups
  models::Heatmaps before = {}, after = {};  ///< training; may have none
};

/// What each token of the text looked at; no groups where the model has no attention.
AttentionSentence explain(const LanguageModel& model, const data::ByteBpe& tokenizer,
                          const std::string& text);

/// The page as text (write it with write_file_atomically).
std::string make_report(const LmReport& report);

}  // namespace tern::apps::lm
