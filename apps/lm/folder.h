// A language model as a folder. model.safetensors, the tokenizer (vocab.json and merges.txt; for a
// BERT vocab.txt and tokenizer_config.json) and config.json have the formats of transformers, which
// can load the folder. lm.json has lm's own configuration. tokens.bin has the ids of the text; a
// resumed run reads them instead of the text, and makes the file anew if it was removed. (A BERT
// has no tokens.bin.) lm also reads published models: pretrained/pretrained_gpt.h, and folders of
// transformers' BertForPreTraining and BertForMaskedLM, with model.safetensors or
// pytorch_model.bin.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/family.h"
#include "tern/core/io/tensor_file.h"
#include "tern/models/bert.h"

namespace tern::apps::lm {

struct ModelFiles {
  std::string folder;
  std::string weights() const { return find_weights(folder); }
  std::string config() const { return folder + "/lm.json"; }
  std::string foreign_config() const { return folder + "/config.json"; }
  std::string vocabulary() const { return folder + "/vocab.json"; }
  std::string merges() const { return folder + "/merges.txt"; }
  std::string pieces() const { return folder + "/vocab.txt"; }
  std::string tokenizer_config() const { return folder + "/tokenizer_config.json"; }
  std::string tokens() const { return folder + "/tokens.bin"; }
};

/// The options of models::Bert for a configuration; `pad` is the id of [PAD].
models::BertOptions bert_sizes(const TrainConfig& config, int64_t pad);

/// Writes the tokenizer, the ids of the text, and config.json if transformers has the family.
/// Removes lm.json, which the caller writes last: a folder that has it is complete.
void save_description(const ModelFiles& files, const TrainConfig& config, const Corpus& corpus);
void save_description(const ModelFiles& files, const TrainConfig& config, const BertCorpus& corpus);

/// Reads lm.json. IoError if it is missing or damaged.
TrainConfig load_config(const ModelFiles& files);
datasets::LanguageTokenizer load_tokenizer(const ModelFiles& files);
/// Reads vocab.txt. tokenizer_config.json says whether it is cased; without that file it is lower
/// case. IoError: that file or added_tokens.json adds tokens to it. Without vocab.txt, reads
/// tokenizer.json. IoError: tokenizer_config.json contradicts it (check_normalizer).
datasets::WordPiece load_pieces(const ModelFiles& files);
/// Only the sizes, from lm.json or from transformers' config.json.
ModelConfig load_sizes(const ModelFiles& files);

struct LoadedModel {
  datasets::LanguageTokenizer tokenizer;
  LanguageModel model;  ///< in evaluation mode
  pretrained::ChatTexts chat = {};
  std::vector<std::string> generation = {};  ///< settings that its folder wants for new texts
  /// Replaces an empty prompt. A line end if the model was trained on few documents: it has hardly
  /// seen <|endoftext|>, which otherwise replaces an empty prompt (generate.h).
  std::string beginning = {};
};
struct LoadedBert {
  datasets::WordPiece pieces;
  models::Bert model;  ///< in evaluation mode
};
/// The tokenizer of an encoder: WordPiece or any of a tokenizer.json.
struct EncoderTokenizer {
  std::function<std::vector<int64_t>(const std::string&)> encode;  ///< with special tokens around
  std::function<std::string(const std::vector<int64_t>&)> decode;
  std::function<std::string(int64_t)> token;
  int64_t size;                 ///< tokens
  std::optional<int64_t> mask;  ///< the token at a gap
};
EncoderTokenizer encoder_tokenizer(const datasets::WordPiece& pieces);
/// tokenizer.json, or else load_pieces(). IoError if it has more tokens than the model, `known`, or
/// if tokenizer_config.json contradicts tokenizer.json (check_normalizer).
EncoderTokenizer load_encoder_tokenizer(const std::string& folder, int64_t known);
struct GapModel {
  EncoderTokenizer tokenizer;
  models::Bert model;  ///< in evaluation mode
};
/// Load a model folder; the first one also a GGUF file. IoError names the part that is missing or
/// does not fit, or says that the folder holds the other kind of model.
LoadedModel load_folder(const std::string& folder);
/// The same with packed weights, if the model can be packed (LanguageModel::can_pack).
LoadedModel load_folder_packed(const std::string& folder, PackedType type);
LoadedBert load_bert_folder(const std::string& folder);
/// A folder of a bert, or of any encoder of transformers with a head for masked words.
GapModel load_gap_model(const std::string& folder);
/// Prints a message about members of a file that tern does not know, if there are any.
void say_unknown(const std::string& path, const std::vector<std::string>& unknown);
/// Whether lm.json or config.json describes a bert, or any encoder. IoError if neither is there.
bool is_bert_folder(const std::string& folder);
bool is_encoder_folder(const std::string& folder);

}  // namespace tern::apps::lm
