// BERT as a folder: model.safetensors, vocab.txt, config.json and tokenizer_config.json as
// transformers has them, so that the folder is one of its own, and lm.json where lm trained it.
// Folders of transformers' BertForPreTraining and BertForMaskedLM are read too.
#pragma once

#include <string>

#include "tern/apps/lm/config.h"
#include "tern/apps/lm/folder.h"
#include "tern/data/text/wordpiece.h"
#include "tern/models/bert.h"

namespace tern::apps::lm {

/// The sizes as the model has them.
models::BertOptions bert_sizes(const TrainConfig& config, const data::WordPiece& pieces);

/// Writes lm.json, the vocabulary and what transformers needs beside them.
void save_bert_description(const ModelFiles& files, const TrainConfig& config,
                           const data::WordPiece& pieces);

/// vocab.txt, cased or not as tokenizer_config.json says; without that file lower case.
data::WordPiece load_pieces(const ModelFiles& files);

struct LoadedBert {
  data::WordPiece pieces;
  models::Bert model;  ///< in evaluation
};
/// IoError names the part that is missing or does not fit, or says that it is no BERT.
LoadedBert load_bert_folder(const std::string& folder);
/// Whether lm.json, or config.json, says that it is one. IoError: neither is there.
bool is_bert_folder(const std::string& folder);

}  // namespace tern::apps::lm
