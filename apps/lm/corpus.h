// The text of a training: read, split, tokenised. To a BERT lines are sentences, and blank lines
// are between documents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/lm/config.h"
#include "tern/data/text/bert_loader.h"
#include "tern/data/text/byte_bpe.h"
#include "tern/data/text/window_loader.h"

namespace tern::apps::lm {

/// The token that stands between texts and ends them.
inline constexpr const char* kEndOfText = "<|endoftext|>";

/// Whole files as text, before anything is learned from them.
struct Texts {
  std::vector<std::string> train, valid;
  std::string description;  ///< "a.txt, b.txt.gz"
};

std::vector<std::string> read_files(const std::vector<std::string>& paths);
/// Reads the files of the configuration, or generates stories. Without files for validation holds
/// out the last share (hold_out) of each text; cuts after the end of a line where one is near.
Texts read_texts(const TrainConfig& config);

/// The tokenizer in the folder of --from or --tokenizer, or one learned from the training texts.
data::ByteBpe make_tokenizer(const TrainConfig& config, const Texts& texts);

/// Texts as ids, <|endoftext|> in front of each where the tokenizer has it.
struct EncodedTexts {
  std::vector<std::vector<int64_t>> ids;
  int64_t bytes = 0;   ///< of what is to be predicted: all but the first token of each
  int64_t tokens = 0;  ///< to be predicted
};
EncodedTexts encode_texts(const std::vector<std::string>& texts, const data::ByteBpe& tokenizer);

struct Corpus {
  data::ByteBpe tokenizer;
  std::shared_ptr<const std::vector<int64_t>> train;  ///< all texts, one behind the other
  double bytes_per_token = 1;                         ///< of training
  EncodedTexts valid;
  std::string checksum;  ///< of all ids, so that a run resumes with the same data
};
Corpus encode_corpus(const Texts& texts, const data::ByteBpe& tokenizer);
/// Training batches, with the configuration's sizes and seed.
data::Loader<data::WindowBatch> training_batches(const TrainConfig& config, const Corpus& corpus);

/// The lines of texts, with a blank line behind each text.
std::vector<std::string> lines_of(const std::vector<std::string>& texts);

/// The vocabulary in the folder of --from or --tokenizer, or one learned from the training texts.
data::WordPiece make_pieces(const TrainConfig& config, const Texts& texts);

struct BertCorpus {
  std::optional<data::WordPiece> tokenizer;
  std::shared_ptr<const data::Documents> train, valid;  ///< valid may be empty
  std::string checksum;  ///< of all ids, so that a run resumes with the same data
};
/// Error: no document of training, or of validation, has two sentences, but pairs are wanted.
BertCorpus encode_documents(const TrainConfig& config, const Texts& texts,
                            const data::WordPiece& pieces);
/// Texts as documents for a model that reads `context` tokens.
std::shared_ptr<const data::Documents> documents_of(const std::vector<std::string>& texts,
                                                    const data::WordPiece& pieces, int64_t context);

/// Whether a document has two sentences.
bool has_pairs(const data::Documents& text);

/// Options of bert_loader, with the configuration's sizes and seed.
data::BertLoaderOptions loader_options(const TrainConfig& config);
data::Loader<data::BertBatch> training_batches(const TrainConfig& config, const BertCorpus& corpus);

}  // namespace tern::apps::lm
