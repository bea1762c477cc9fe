// Vectors of texts by an encoder: a folder of transformers or of sentence-transformers (MiniLM, e5,
// bge, gte, mpnet, ...), or of `lm train --model bert`.
//
// sentence-transformers' own files in the folder say what it does with the states: modules.json,
// PATH/config.json of its Pooling, sentence_bert_config.json (the length of texts; also under the
// older names, such as sentence_roberta_config.json), config_sentence_transformers.json (a text in
// front of every text). Without modules.json the vector is the mean of the states, of length 1.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tern/models/sentence.h"

namespace tern::apps::lm {

/// What a folder says of its vectors.
struct EmbedRecipe {
  models::Pooling pooling = models::Pooling::mean;
  bool normalise = true;
  std::optional<int64_t> max_tokens = {};  ///< of a text, with special tokens
  std::string prompt = {};                 ///< in front of every text
  bool pools_prompt = true;                ///< the prompt's states are pooled too
  bool found = false;                      ///< there is a modules.json
};
/// IoError with the file: it is damaged, or asks for something that tern does not do, such as a
/// layer behind the pooling.
EmbedRecipe read_recipe(const std::string& folder);

/// A text's ids with special tokens, at most `max_tokens`: the end of the text is left out, and
/// `cut` grows by 1.
using Encoder = std::function<std::vector<int64_t>(const std::string& text, int64_t& cut)>;

struct Embedder {
  EmbedRecipe recipe;
  int64_t max_tokens;  ///< of a text, with special tokens
  Encoder encode;
  models::Bert model;  ///< in evaluation mode
};
/// IoError names the part that is missing or does not fit. Prints what it does not use.
Embedder load_embedder(const std::string& folder);

struct EmbeddedTexts {
  Tensor vectors;   ///< (number of texts, D); undefined if `progress` ended it
  int64_t cut = 0;  ///< texts whose ends were left out
};
EmbeddedTexts embed_texts(const Embedder& embedder, std::span<const std::string> texts,
                          const std::function<bool(int64_t)>& progress = {});
/// What is assumed of vectors, because the folder does not say it and no flag does: `pooling`,
/// `normalise`: the flag leaves it to the folder. Empty if nothing is assumed.
std::string assumed_text(const EmbedRecipe& recipe, bool pooling, bool normalise);
/// "3 of 9 texts have more than 256 tokens; their ends were left out".
std::string cut_text(const Embedder& embedder, int64_t cut, size_t texts);

/// Each row as a line of JSON, a list of numbers that read back as the same floats.
std::string json_lines(const Tensor& vectors);

}  // namespace tern::apps::lm
