// config.json of transformers' causal language models, from and to models::GptOptions.
//
// Known model_type: gpt2, gpt_neox, llama, mistral, phi3, qwen2, qwen3, gemma3_text, smollm3. Every
// member is used, or ignored because it changes no result, or refused by name if tern's model has
// no such option.
//
// Models in Llama's form have dropout only in attention (attention_dropout), Phi-3 also on
// embeddings and sublayers. tern's own models may have all three. Then write_gpt_config() adds the
// members tern_resid_pdrop and tern_embd_pdrop: transformers reads the file and ignores them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tern/models/gpt.h"

namespace tern::pretrained {

/// The texts that conversations need (chat_template.h); empty if the model has none.
struct ChatTexts {
  std::string jinja = {};                ///< the chat template; of several the one called "default"
  std::vector<std::string> others = {};  ///< the names of the others
  std::string begin = {}, end = {};      ///< bos_token and eos_token, which templates use
  std::map<std::string, std::string> further = {};  ///< the same of unk_token, pad_token, ...
};

struct GptConfig {
  models::GptOptions options;
  std::string family;                ///< model_type
  std::vector<int64_t> ends;         ///< eos_token_id: the tokens that end a text
  std::vector<std::string> unknown;  ///< members that tern does not know: they may change results
};

/// Error: not such a config.json, another model, or an option that tern does not have. Members of
/// inner objects that tern does not know are an error, too.
GptConfig read_gpt_config(const std::string& json);

/// The member eos_token_id of config.json or generation_config.json: a number, a list, or nothing.
std::vector<int64_t> end_tokens(const std::string& json);
/// The members of generation_config.json that change texts, with their values, except end tokens
/// and lengths: "temperature 0.6". transformers follows them, tern leaves them to its user. Error:
/// the text is no JSON object.
std::vector<std::string> generation_settings(const std::string& json);
/// The member model_type; "none" if it is missing. Error: the text is not JSON.
std::string model_type(const std::string& json);

/// The config.json with this dropout on embeddings, sublayers and attention.
std::string with_dropout(const std::string& json, double dropout);

/// A config.json or generation_config.json with these end tokens.
std::string with_ends(const std::string& json, const std::vector<int64_t>& ends);

/// The text of config.json for a model of these options, with `end` as eos_token_id and
/// bos_token_id; nothing if no GPT-2, Llama, Mistral, Qwen 2, Qwen 3 or Gemma 3 has them. Error: no
/// model can be made of them (models::check_options).
std::optional<std::string> write_gpt_config(const models::GptOptions& options,
                                            std::optional<int64_t> end);

}  // namespace tern::pretrained
