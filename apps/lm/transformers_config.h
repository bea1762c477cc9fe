// Converts the tokenizer_config.json of transformers' BERTs from and to tern's options, and reads the
// pieces of a tokenizer.json.
// config.json: pretrained/gpt_config.h and models/bert_config.h.
#pragma once

#include <string>
#include <vector>

#include "tern/data/text/wordpiece/wordpiece.h"

namespace tern::apps::lm {

/// Names of members that tern does not know. They may change the meaning of a file.
using Unknown = std::vector<std::string>;

/// Error: a tokenizer other than BERT's, or other special pieces.
datasets::WordPieceOptions pieces_from_transformers(const std::string& json,
                                                    Unknown* unknown = nullptr);
/// The pieces in a tokenizer.json, which stands alone in folders of newer versions of transformers.
/// Error: the text is not such a file, or its rules are not those of BERT.
datasets::WordPiece pieces_from_tokenizer(const std::string& json);
/// `context`: the largest number of tokens per sequence.
std::string pieces_to_transformers(const datasets::WordPieceOptions& options, int64_t context);

}  // namespace tern::apps::lm
