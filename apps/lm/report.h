// report.html of a language model or a BERT: one self-contained page.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/pages/run_page.h"
#include "tern/apps/lm/family.h"
#include "tern/apps/lm/fill.h"
#include "tern/data/text/tokenizer/language_tokenizer.h"

namespace tern::apps::lm {

struct SampleText {
  std::string prompt, text;  ///< the prompt, and the model's continuation
};

struct LmReport {
  RunSummary run;  ///< its best epoch is the one whose weights were kept
  std::vector<SampleText> samples;
  int64_t valid_tokens = 0;
  AttentionSentence attention = {};          ///< may have no groups
  models::Heatmaps before = {}, after = {};  ///< before and after training; may be empty
};

/// How tokens attend to each other, from the weights (1, H, T, T) of every layer.
AttentionSentence self_attention(const std::string& text, const std::vector<Tensor>& layers,
                                 const std::vector<std::string>& tokens);
/// The attention of each token of the text; only of the beginning if the text is long, as the note
/// then says. For a BERT the text has [CLS] and [SEP]. No groups if the model has no attention.
AttentionSentence explain(const LanguageModel& model, const datasets::LanguageTokenizer& tokenizer,
                          const std::string& text);
AttentionSentence explain(const models::Bert& model, const EncoderTokenizer& tokenizer,
                          const std::string& text);

struct FilledSample {
  std::string masked, whole;  ///< the text with [MASK], and the original
  FilledText filled;
};

struct BertReport {
  RunSummary run;  ///< its best epoch is the one whose weights were kept
  std::vector<FilledSample> samples;
  AttentionSentence attention = {};  ///< may have no groups
};

/// The page as text (write it with write_file_atomically).
std::string make_report(const LmReport& report);
std::string make_report(const BertReport& report);

}  // namespace tern::apps::lm
