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
/// Error: tokenizer_config.json adds a token to vocab.txt, which has these pieces. Returns whether
/// it has an added_tokens_decoder.
bool refuse_added_pieces(const std::string& tokenizer_config, const datasets::WordPiece& pieces);
/// The same for added_tokens.json, which transformers reads without an added_tokens_decoder.
void refuse_added_ids(const std::string& added_tokens, const datasets::WordPiece& pieces);
/// The pieces of a tokenizer.json that holds BERT's tokenizer. Error: it holds another one.
datasets::WordPiece pieces_of_tokenizer(const std::string& json);
/// Error: tokenizer_config.json contradicts the BertNormalizer of tokenizer.json. transformers
/// follows the former (do_lower_case, strip_accents, tokenize_chinese_chars) if the class is a
/// BERT's, or if none is named and config.json, `model`, is a BERT's. A missing key has its default
/// if a class is named, and is not compared otherwise. tern follows tokenizer.json, as transformers
/// does with other classes.
void check_normalizer(const std::string& tokenizer_config, const std::string& model,
                      const std::string& tokenizer);
/// `context`: the largest number of tokens per sequence.
std::string pieces_to_transformers(const datasets::WordPieceOptions& options, int64_t context);

}  // namespace tern::apps::lm
