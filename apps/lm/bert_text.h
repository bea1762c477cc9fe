// The text of a BERT's training: lines are sentences, blank lines are between documents.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tern/apps/lm/corpus.h"
#include "tern/data/text/bert_loader.h"

namespace tern::apps::lm {

/// The texts as lines, those of one text behind a blank line. Stories that are made up, a line
/// each, become documents of a line a sentence.
struct Lines {
  std::vector<std::string> train, valid;
};
Lines lines_of(const TrainConfig& config, const Texts& texts);

/// That of the configuration's folder, or one learned from the lines of training.
data::WordPiece make_pieces(const TrainConfig& config, const Lines& lines);

struct BertCorpus {
  std::shared_ptr<const data::Documents> train, valid;  ///< valid may be empty
  std::string checksum;  ///< of all ids, so that a run goes on with the same data
};
/// Error: no document of training, or of validation, has two sentences, but pairs are wanted.
BertCorpus encode_documents(const TrainConfig& config, const Lines& lines,
                            const data::WordPiece& pieces);
/// The same of one text, for `context` tokens.
data::Documents documents_of(const std::string& text, const data::WordPiece& pieces,
                             int64_t context);

/// Whether a document has two sentences.
bool has_pairs(const data::Documents& text);

/// What is masked how: as bert_loader.h says, with the configuration's sizes and seed.
data::BertLoaderOptions loader_options(const TrainConfig& config);

}  // namespace tern::apps::lm
