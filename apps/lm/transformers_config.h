// The config.json of transformers' GPT2LMHeadModel and LlamaForCausalLM, from and to sizes of ours.
#pragma once

#include <optional>
#include <string>

#include "tern/apps/lm/config.h"

namespace tern::apps::lm {

/// Error: another model, or an option that ours has not (scaled attention, another activation,
/// scaled rotary positions, heads of another width, biases here and not there).
ModelConfig sizes_from_transformers(const std::string& json);

/// Nothing for families that transformers has not. `end` is the id of <|endoftext|>.
std::optional<std::string> sizes_to_transformers(const ModelConfig& config,
                                                 std::optional<int64_t> end);

}  // namespace tern::apps::lm
