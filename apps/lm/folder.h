// A language model as a folder: model.safetensors, vocab.json and merges.txt as transformers has
// them, beside lm.json, what lm itself knows. Folders of transformers' GPT2LMHeadModel and
// LlamaForCausalLM (config.json instead of lm.json) are read too.
#pragma once

#include <string>

#include "tern/apps/lm/config.h"
#include "tern/apps/lm/family.h"
#include "tern/data/text/byte_bpe.h"

namespace tern::apps::lm {

struct ModelFiles {
  std::string folder;
  std::string weights() const { return folder + "/model.safetensors"; }
  std::string config() const { return folder + "/lm.json"; }
  std::string foreign_config() const { return folder + "/config.json"; }
  std::string vocabulary() const { return folder + "/vocab.json"; }
  std::string merges() const { return folder + "/merges.txt"; }
};

/// Writes lm.json and the tokenizer; and, for families that transformers has, its config.json, so
/// that the folder is one of its own too.
void save_description(const ModelFiles& files, const TrainConfig& config,
                      const data::ByteBpe& tokenizer);
/// lm.json alone.
void save_config(const ModelFiles& files, const TrainConfig& config);
/// IoError if it is missing or damaged.
TrainConfig load_config(const ModelFiles& files);
data::ByteBpe load_tokenizer(const ModelFiles& files);
/// The sizes alone: from lm.json, or from transformers' config.json.
ModelConfig load_sizes(const ModelFiles& files);

struct LoadedModel {
  data::ByteBpe tokenizer;
  LanguageModel model;  ///< in evaluation
};
/// Loads a model folder; IoError names the part that is missing or does not fit.
LoadedModel load_folder(const std::string& folder);

}  // namespace tern::apps::lm
