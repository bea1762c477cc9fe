// Converts the config.json of transformers' GPT2LMHeadModel, LlamaForCausalLM and BERTs, and the
// BERTs' tokenizer_config.json, from and to tern's options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/apps/lm/config.h"
#include "tern/data/text/wordpiece/wordpiece.h"
#include "tern/models/bert.h"

namespace tern::apps::lm {

/// The member model_type: "gpt2", "llama", "bert", ...; "none" if it is missing.
std::string transformers_model(const std::string& json);

/// Names of members that tern does not know. They may change the meaning of a file.
using Unknown = std::vector<std::string>;

/// Error: another model, or an option that tern's model does not have (scaled attention, another
/// activation, scaled rotary positions, heads of another width, only some of the biases). Ignores
/// members that change no result. Other unknown members go to `unknown`, if it is given; in an
/// inner object that is read they are an error.
ModelConfig sizes_from_transformers(const std::string& json, Unknown* unknown = nullptr);

/// Empty for families that transformers does not have. `end` is the id of <|endoftext|>.
std::optional<std::string> sizes_to_transformers(const ModelConfig& config,
                                                 std::optional<int64_t> end);

/// Options of a BERT that the shapes of its weights do not show. Errors as above.
models::BertOptions bert_from_transformers(const std::string& json, Unknown* unknown = nullptr);
std::string bert_to_transformers(const models::BertOptions& options);

/// Error: a tokenizer other than BERT's, or other special pieces.
datasets::WordPieceOptions pieces_from_transformers(const std::string& json,
                                                    Unknown* unknown = nullptr);
/// `context`: the largest number of tokens per sequence.
std::string pieces_to_transformers(const datasets::WordPieceOptions& options, int64_t context);

}  // namespace tern::apps::lm
