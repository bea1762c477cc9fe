// The config.json of transformers' encoders (bert, roberta, xlm-roberta, camembert, distilbert,
// electra, mpnet), from and to models::BertOptions.
//
//   models::BertOptions options = models::bert_options_from_json(text);
//
// Every member of the file is used, or changes no result, or is refused by name. load_bert()
// (bert.h) reads the config.json beside the weights by itself.
#pragma once

#include <string>
#include <vector>

#include "tern/models/bert.h"

namespace tern::models {

/// Whether a config.json with this model_type describes such an encoder.
bool is_encoder_type(const std::string& model_type);

/// Sizes, heads of attention, activation, eps, padding and dropout; what the file leaves out has
/// transformers' default. The heads on top of the model are those of BertOptions: the weights show
/// them. Error: the text is not JSON, describes another model, or has an option that Bert does not
/// have (relative positions, a decoder, another activation). Members that tern does not know go to
/// `unknown`; without it they are an error.
BertOptions bert_options_from_json(const std::string& text,
                                   std::vector<std::string>* unknown = nullptr);

/// The config.json of a BERT with these options, for transformers. Error: the options make another
/// model of it (RoBERTa, ...).
std::string bert_options_to_json(const BertOptions& options);

}  // namespace tern::models
