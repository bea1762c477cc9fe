// The config.json of transformers' GPT2LMHeadModel, LlamaForCausalLM and BERTs, and the BERTs'
// tokenizer_config.json, from and to options of ours.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/apps/lm/config.h"
#include "tern/data/text/wordpiece.h"
#include "tern/models/bert.h"

namespace tern::apps::lm {

/// "gpt2", "llama", "bert", ...; "none" where it does not say.
std::string transformers_model(const std::string& json);

/// Names of members that tern does not know. They may change the meaning of a file.
using Unknown = std::vector<std::string>;

/// Error: another model, or an option that tern's does not have (scaled attention, another
/// activation, scaled rotary positions, heads of another width, some biases and not others).
/// Ignores members that change no result. Other unknown members go to `unknown`, if it is given. An
/// unknown member inside of an object that is read is an error.
ModelConfig sizes_from_transformers(const std::string& json, Unknown* unknown = nullptr);

/// Nothing for families that transformers does not have. `end` is the id of <|endoftext|>.
std::optional<std::string> sizes_to_transformers(const ModelConfig& config,
                                                 std::optional<int64_t> end);

/// What the shapes of a BERT's weights do not say. Error as above.
models::BertOptions bert_from_transformers(const std::string& json, Unknown* unknown = nullptr);
std::string bert_to_transformers(const models::BertOptions& options);

/// Error: another tokenizer than BERT's, other special pieces.
datasets::WordPieceOptions pieces_from_transformers(const std::string& json,
                                                    Unknown* unknown = nullptr);
/// `context`: most tokens of a sequence.
std::string pieces_to_transformers(const datasets::WordPieceOptions& options, int64_t context);

}  // namespace tern::apps::lm
