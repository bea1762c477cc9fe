// The text of a training: read, split, tokenised. To a BERT lines are sentences, and blank lines
// are between documents.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/lm/config.h"
#include "tern/apps/lm/corpus_texts.h"
#include "tern/data/text/bert_loader.h"
#include "tern/data/text/byte_bpe.h"
#include "tern/data/text/window_loader.h"

namespace tern::apps::lm {

/// The token that stands between texts and ends them.
inline constexpr const char* kEndOfText = "<|endoftext|>";

/// The tokenizer in the folder of --from or --tokenizer, or one learned from the training texts
/// (texts_to_learn_from).
data::ByteBpe make_tokenizer(const TrainConfig& config, const Texts& texts);

/// Texts as ids, one behind the other, <|endoftext|> in front of each where the tokenizer has it.
struct EncodedTexts {
  data::TokenStream ids;
  std::vector<int64_t> ends;  ///< of the texts in `ids`; no text is empty
  int64_t bytes = 0;          ///< of what is to be predicted: all but the first token of each
  int64_t tokens = 0;         ///< to be predicted
};
EncodedTexts encode_texts(const std::vector<std::string>& texts, const data::ByteBpe& tokenizer);

/// Calls visit(line) for each line of the texts, without its end. Of a longer line only the first
/// 64 KiB.
void for_each_line(const EncodedTexts& texts, const data::ByteBpe& tokenizer,
                   const std::function<void(const std::string&)>& visit);

/// Its ids are in a file, so that it takes no memory that grows with the texts.
struct Corpus {
  data::ByteBpe tokenizer;
  EncodedTexts train, valid;
  double bytes_per_token = 1;   ///< of training
  std::string checksum;         ///< of all ids, so that a run resumes with the same data
  data::TokenStream file = {};  ///< all ids, with notes on the texts: to be kept
};
/// Writes the ids to a file without a name near `folder`. Reads the texts in pieces; the ids are
/// those of whole texts.
Corpus encode_corpus(const Texts& texts, const data::ByteBpe& tokenizer,
                     const std::string& folder = ".");
/// The corpus whose file a run keeps at `path`; nothing if it is not there. IoError: the file is
/// damaged or of another tokenizer, or the texts have changed since.
std::optional<Corpus> open_corpus(const TrainConfig& config, const std::string& path,
                                  const data::ByteBpe& tokenizer);
/// Training batches, with the configuration's sizes and seed.
data::Loader<data::WindowBatch> training_batches(const TrainConfig& config, const Corpus& corpus);

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
