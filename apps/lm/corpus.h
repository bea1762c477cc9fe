// The text of a training: files that may be larger than memory, read in pieces, split, tokenised.
// To a BERT lines are sentences, and blank lines are between documents.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/apps/lm/config.h"
#include "tern/data/text/bert_loader.h"
#include "tern/data/text/byte_bpe.h"
#include "tern/data/text/window_loader.h"

namespace tern::apps::lm {

/// A text in memory, or a part of a file's text.
class TextPart {
 public:
  TextPart(std::string text);  // NOLINT: a conversion
  /// Bytes [begin, end) of the text of a file; both are at the beginning of a character.
  TextPart(std::string path, int64_t begin, int64_t end);

  int64_t size() const { return end_ - begin_; }
  std::string name() const { return text_ ? "the text" : path_; }
  /// Calls visit(piece) with the text in order, about 1 MiB of whole characters at a time. IoError:
  /// as datasets::read_text, or the file is shorter than it was.
  void read(const std::function<void(std::string_view)>& visit) const;
  std::string whole() const;

 private:
  std::shared_ptr<const std::string> text_;  // or
  std::string path_;
  int64_t begin_ = 0, end_ = 0;
};

/// What is known of a file of text: it tells later whether it is still the same file.
struct TextFile {
  std::string path;
  int64_t bytes = 0;     ///< of the text, unpacked
  int64_t train = 0;     ///< of them are for training, the rest for validation
  uint32_t crc = 0;      ///< CRC-32 of the text
  int64_t on_disk = 0;   ///< bytes of the file
  int64_t modified = 0;  ///< nanoseconds since 1970
};

/// Texts, before anything is learned from them.
struct Texts {
  std::vector<TextPart> train, valid;
  std::vector<TextFile> files = {};  ///< that they stand in
  std::string mark = kEndOfText;     ///< between documents
  int64_t cut_documents = 0;         ///< documents that are partly in `train`, partly in `valid`
};

/// "a.txt, b.txt.gz".
std::string text_names(const TrainConfig& config);

/// The files that --text and --valid name, in this order. A folder stands for the files in it and
/// its folders whose names end in .txt or .gz (except .tar.gz), in the order of their names. Skips
/// hidden ones and __MACOSX.
std::vector<std::string> text_paths(const TrainConfig& config);
/// Says which files text_paths leaves out of each folder, and how to use them: "DIR: 3 of 461 files
/// are not used: 2 .md, 1 without an ending; ...".
std::vector<std::string> unused_files(const TrainConfig& config);

/// Looks through the files of the configuration, or generates stories. Without files for validation
/// holds out the last share (hold_out) of each text; cuts after the end of a line where one is
/// near. Takes no memory that grows with the files. IoError: as datasets::read_text.
Texts read_texts(const TrainConfig& config);

/// IoError unless the files of the configuration are those of `files`, unchanged. Compares sizes
/// and times, and the text of a file that has another time.
void check_unchanged(const TrainConfig& config, const std::vector<TextFile>& files);

/// Describes the documents of texts for the header of a run: "1,234 documents, separated by
/// <|endoftext|>"; empty for one document.
std::string documents_text(const TrainConfig& config, int64_t documents, int64_t marks,
                           bool has_token = true);
/// Keeps the count in the configuration of a new run. Error: the texts lack a mark that was given.
void note_documents(TrainConfig& config, int64_t documents, int64_t marks);

/// Whole files as text.
std::vector<std::string> read_files(const std::vector<std::string>& paths);
std::vector<std::string> whole_texts(const std::vector<TextPart>& parts);
/// The texts, or of more than 64 MiB so much, in pieces from all over them.
std::vector<std::string> texts_to_learn_from(const std::vector<TextPart>& parts);

/// The tokenizer in the folder of --from or --tokenizer, or one learned from the training texts
/// (texts_to_learn_from).
datasets::ByteBpe make_tokenizer(const TrainConfig& config, const Texts& texts);

/// Texts as ids, one behind the other, <|endoftext|> in front of each document where the tokenizer
/// has it. Within a text it is predicted too: it is the end of the document before.
struct EncodedTexts {
  datasets::TokenStream ids;
  std::vector<int64_t> ends;  ///< of the texts in `ids`; no text is empty
  int64_t bytes = 0;          ///< of what is to be predicted: all but the first token of each
  int64_t tokens = 0;         ///< to be predicted
  int64_t documents = 0;
  int64_t marks = 0;  ///< between documents of a text; their bytes count
};
EncodedTexts encode_texts(const std::vector<std::string>& texts, const datasets::ByteBpe& tokenizer,
                          const std::string& mark = kEndOfText);

/// Calls visit(line) for each line of the documents, without its end. Cuts lines after 64 KiB.
void for_each_line(const EncodedTexts& texts, const datasets::ByteBpe& tokenizer,
                   const std::function<void(const std::string&)>& visit);

/// Its ids are in a file, so that it takes no memory that grows with the texts.
struct Corpus {
  datasets::ByteBpe tokenizer;
  EncodedTexts train, valid;
  double bytes_per_token = 1;       ///< of training
  std::string checksum;             ///< of all ids, so that a run resumes with the same data
  datasets::TokenStream file = {};  ///< all ids, with notes on the texts: to be kept
};
/// Writes the ids to a file without a name near `folder`. Reads the texts in pieces; the ids are
/// those of whole texts.
Corpus encode_corpus(const Texts& texts, const datasets::ByteBpe& tokenizer,
                     const std::string& folder = ".");
/// The corpus whose file a run keeps at `path`; nothing if it is not there. IoError: the file is
/// damaged or of another tokenizer, or the texts have changed since.
std::optional<Corpus> open_corpus(const TrainConfig& config, const std::string& path,
                                  const datasets::ByteBpe& tokenizer);
/// Training batches, with the configuration's sizes and seed.
datasets::Loader<datasets::WindowBatch> training_batches(const TrainConfig& config,
                                                         const Corpus& corpus);

/// The vocabulary in the folder of --from or --tokenizer, or one learned from the training texts.
datasets::WordPiece make_pieces(const TrainConfig& config, const Texts& texts);

struct BertCorpus {
  std::optional<datasets::WordPiece> tokenizer;
  std::shared_ptr<const datasets::Documents> train, valid;  ///< valid may be empty
  std::string checksum;              ///< of all ids, so that a run resumes with the same data
  int64_t documents = 0, marks = 0;  ///< of all texts
};
/// Error: no document of training, or of validation, has two sentences, but pairs are wanted.
BertCorpus encode_documents(const TrainConfig& config, const Texts& texts,
                            const datasets::WordPiece& pieces);
/// Texts as documents for a model that reads `context` tokens.
std::shared_ptr<const datasets::Documents> documents_of(const std::vector<std::string>& texts,
                                                        const datasets::WordPiece& pieces,
                                                        int64_t context);

/// Whether a document has two sentences.
bool has_pairs(const datasets::Documents& text);

/// Options of bert_loader, with the configuration's sizes and seed.
datasets::BertLoaderOptions loader_options(const TrainConfig& config);
datasets::Loader<datasets::BertBatch> training_batches(const TrainConfig& config,
                                                       const BertCorpus& corpus);

}  // namespace tern::apps::lm
