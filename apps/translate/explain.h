// The attention of a translation with words beside the numbers, as pages and terminals show it.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/attention_record.h"
#include "tern/apps/translate/translator.h"

namespace tern::apps::translate {

/// All attention of a line and its translation; no groups where a side has no tokens, or the model
/// no attention (seq2seq).
AttentionSentence explain(const TranslationModel& model, const Tokenizers& tokenizers,
                          const std::string& source, const TranslatedText& translation);

/// What a terminal shows: the alignment, or the cross attention of each layer averaged over heads.
std::string explain_text(const AttentionSentence& sentence, int width, bool colour);

}  // namespace tern::apps::translate
