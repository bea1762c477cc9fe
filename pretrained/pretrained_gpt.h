// Published causal language models: a folder as transformers writes it, or a GGUF file.
//
//   pretrained::Pretrained m = pretrained::load_pretrained("SmolLM2-135M-Instruct");
//   std::vector<int64_t> prompt = m.tokenizer.encode_prompt("The capital of France is");
//   Tensor logits = m.model(unsqueeze(tensor(prompt), 0));
//   decoding::PackedGpt packed(std::move(m.model), PackedType::int8);   // writes texts fast
//
// Of a folder it reads config.json (gpt_config.h), generation_config.json (end tokens),
// tokenizer.json (or vocab.json and merges.txt, and with them added_tokens.json),
// tokenizer_config.json, special_tokens_map.json and chat_template.jinja (special tokens and the
// chat template), and the weights: model.safetensors or its shards, or pytorch_model.bin. A GGUF
// file holds all of these. Names of weights that differ from the model's are changed while they are
// loaded (models/gpt.h).
#pragma once

#include <string>

#include "tern/core/io/tensor_file.h"
#include "tern/data/text/tokenizer/language_tokenizer.h"
#include "tern/models/gpt.h"
#include "tern/pretrained/gpt_config.h"

namespace tern::pretrained {

/// Everything but the weights.
struct GptFiles {
  std::string config_json;  ///< the text of config.json, or the same facts of a GGUF file
  GptConfig config;
  datasets::LanguageTokenizer tokenizer;  ///< with the model's end tokens
  ChatTexts chat;
  std::vector<std::string> generation = {};  ///< generation_settings() of the folder
  std::vector<int64_t> unknown_ends = {};    ///< end tokens beyond the model's table: left out
};

/// Whether the path is a GGUF file.
bool is_gguf(const std::string& path);

/// Reads everything but the weights. IoError with the file: it is missing or damaged, or has an
/// option that tern does not have.
GptFiles open_gpt(const std::string& path);
/// The same for a folder whose config.json has this text.
GptFiles open_gpt(const std::string& folder, const std::string& config_json);

/// The path of the folder's weights, or of the GGUF file.
std::string weights_path(const std::string& path);

/// Loads the file of weights. IoError if they do not fit; then the model does not change.
void load_weights(const std::string& weights_path, models::Gpt& model);

/// Opens the file of weights, for decoding::PackedGpt, whose memory then never holds the whole
/// model unpacked. Names are transformers'. IoError if the file is missing or damaged. Files of
/// PyTorch stay in memory as a whole.
TensorSource open_weights(const std::string& weights_path);

/// A published model with what its files say of it.
struct Pretrained : GptFiles {
  models::Gpt model;  ///< in evaluation mode
};

/// Reads a folder or a GGUF file whole. Memory holds the weights once. Errors: as open_gpt() and
/// load_weights().
Pretrained load_pretrained(const std::string& path);

}  // namespace tern::pretrained
