// Converts the tokenizer_config.json of transformers' BERTs from and to tern's options.
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
/// The pieces of a tokenizer.json that holds BERT's tokenizer. Error: it holds another one.
datasets::WordPiece pieces_of_tokenizer(const std::string& json);
/// `context`: the largest number of tokens per sequence.
std::string pieces_to_transformers(const datasets::WordPieceOptions& options, int64_t context);

}  // namespace tern::apps::lm
