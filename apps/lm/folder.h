// A language model as a folder. model.safetensors, the tokenizer (vocab.json and merges.txt; for a
// BERT vocab.txt and tokenizer_config.json) and config.json have the formats of transformers, which
// can load the folder. lm.json has lm's own configuration. tokens.bin has the ids of the text; a
// resumed run reads them instead of the text, and makes the file anew if it was removed. (A BERT
// has no tokens.bin.) lm also reads folders of transformers' GPT2LMHeadModel, LlamaForCausalLM,
// BertForPreTraining and BertForMaskedLM.
#pragma once

#include <string>

#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/family.h"
#include "tern/models/bert.h"

namespace tern::apps::lm {

struct ModelFiles {
  std::string folder;
  std::string weights() const { return folder + "/model.safetensors"; }
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
datasets::ByteBpe load_tokenizer(const ModelFiles& files);
/// Reads vocab.txt. tokenizer_config.json says whether it is cased; without that file it is lower
/// case.
datasets::WordPiece load_pieces(const ModelFiles& files);
/// Only the sizes, from lm.json or from transformers' config.json.
ModelConfig load_sizes(const ModelFiles& files);

struct LoadedModel {
  datasets::ByteBpe tokenizer;
  LanguageModel model;  ///< in evaluation mode
};
struct LoadedBert {
  datasets::WordPiece pieces;
  models::Bert model;  ///< in evaluation mode
};
/// Load a model folder. IoError names the part that is missing or does not fit, or says that the
/// folder holds the other kind of model.
LoadedModel load_folder(const std::string& folder);
LoadedBert load_bert_folder(const std::string& folder);
/// Whether lm.json or config.json describes a bert. IoError if neither is there.
bool is_bert_folder(const std::string& folder);

}  // namespace tern::apps::lm
