// A language model as a folder: model.safetensors, tokenizer (vocab.json and merges.txt; a BERT's
// vocab.txt and tokenizer_config.json) and config.json as transformers has them, so that the folder
// is one of its own, and lm.json, what lm itself knows. tokens.bin has the ids of the text, which a
// resumed run reads instead of the text; if it is removed, it is made anew. (A BERT has none.)
// Folders of transformers' GPT2LMHeadModel, LlamaForCausalLM, BertForPreTraining and
// BertForMaskedLM are read too.
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

/// The sizes of a BERT as the model has them; `pad` is the id of [PAD].
models::BertOptions bert_sizes(const TrainConfig& config, int64_t pad);

/// Writes the tokenizer, the ids of the text, and config.json where transformers has the family.
/// Removes lm.json, which is written last: a run that has it has everything.
void save_description(const ModelFiles& files, const TrainConfig& config, const Corpus& corpus);
void save_description(const ModelFiles& files, const TrainConfig& config, const BertCorpus& corpus);

/// lm.json. IoError if it is missing or damaged.
TrainConfig load_config(const ModelFiles& files);
datasets::ByteBpe load_tokenizer(const ModelFiles& files);
/// vocab.txt, cased or not as tokenizer_config.json says; without that file lower case.
datasets::WordPiece load_pieces(const ModelFiles& files);
/// The sizes alone: from lm.json, or from transformers' config.json.
ModelConfig load_sizes(const ModelFiles& files);

struct LoadedModel {
  datasets::ByteBpe tokenizer;
  LanguageModel model;  ///< in evaluation
};
struct LoadedBert {
  datasets::WordPiece pieces;
  models::Bert model;  ///< in evaluation
};
/// Load a model folder; IoError names the part that is missing or does not fit, or says that it is
/// of the other kind.
LoadedModel load_folder(const std::string& folder);
LoadedBert load_bert_folder(const std::string& folder);
/// Whether lm.json or config.json describes a bert. IoError if neither is there.
bool is_bert_folder(const std::string& folder);

}  // namespace tern::apps::lm
