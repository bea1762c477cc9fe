// The text of a training: files, which may be larger than memory, are read in pieces, split and
// tokenised. For a BERT each line is a sentence, and blank lines separate documents.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/apps/lm/config.h"
#include "tern/data/text/documents/bert_loader.h"
#include "tern/data/text/stream/window_loader.h"
#include "tern/data/text/tokenizer/language_tokenizer.h"

namespace tern::apps::lm {

/// A text in memory, or a part of a file's text.
class TextPart {
 public:
  TextPart(std::string text);  // NOLINT: a conversion
  /// Bytes [begin, end) of the text of a file. REQUIRES: both are at the start of a character.
  TextPart(std::string path, int64_t begin, int64_t end);

  int64_t size() const { return end_ - begin_; }
  std::string name() const { return text_ ? "the text" : path_; }
  /// Calls visit(piece) with the text in order, in pieces of about 1 MiB of whole characters.
  /// IoError: as datasets::read_text, or the file has become shorter.
  void read(const std::function<void(std::string_view)>& visit) const;
  std::string whole() const;

 private:
  std::shared_ptr<const std::string> text_;  // nullptr: the text is in the file
  std::string path_;
  int64_t begin_ = 0, end_ = 0;
};

/// Facts about a text file, which show later whether it is unchanged.
struct TextFile {
  std::string path;
  int64_t bytes = 0;     ///< of the text, unpacked
  int64_t train = 0;     ///< bytes for training; the rest is for validation
  uint32_t crc = 0;      ///< CRC-32 of the text
  int64_t on_disk = 0;   ///< bytes of the file
  int64_t modified = 0;  ///< nanoseconds since 1970
};

/// Texts before tokenisation.
struct Texts {
  std::vector<TextPart> train, valid;
  std::vector<TextFile> files = {};  ///< files that hold the texts
  std::string mark = kEndOfText;     ///< between documents
  int64_t cut_documents = 0;         ///< documents that are partly in `train` and partly in `valid`
};

/// "a.txt, b.txt.gz".
std::string text_names(const TrainConfig& config);

/// The files that --text and --valid name, in this order. A folder stands for all files in it and
/// its subfolders whose names end in .txt or .gz (except .tar.gz), sorted by name. Hidden files and
/// __MACOSX are skipped. A folder of --text leaves out the files that --valid names.
std::vector<std::string> text_paths(const TrainConfig& config);
/// Error if --text or --valid names a file twice, also by its folder or by another name.
void check_named_once(const TrainConfig& config);
/// A text for each file that trains and validates, and for each folder one that says which files
/// text_paths leaves out, and how to use them: "DIR: 3 of 461 files are not used: 2 .md, 1 without
/// an ending; ...".
std::vector<std::string> remarks_on_files(const TrainConfig& config);

/// Examines the files of the configuration, or generates stories. Without files for validation it
/// holds out the last share (hold_out) of each text, and cuts after a document or a line if one
/// ends nearby. Memory does not grow with the files. IoError: as datasets::read_text.
Texts read_texts(const TrainConfig& config);

/// IoError unless the files of the configuration are `files`, unchanged. Compares sizes and times;
/// if a file's time differs, also its text.
void check_unchanged(const TrainConfig& config, const std::vector<TextFile>& files);

/// Describes the documents of texts for the header of a run: "1,234 documents, separated by
/// <|endoftext|>"; empty for one document.
std::string documents_text(const TrainConfig& config, int64_t documents, int64_t marks,
                           bool has_token = true);
/// Stores the count in the configuration of a new run. Error if the texts lack a mark that a flag
/// gave.
void note_documents(TrainConfig& config, int64_t documents, int64_t marks);

/// Whole parts as text.
std::vector<std::string> whole_texts(const std::vector<TextPart>& parts);
/// The texts, or a sample of 64 MiB if they are larger: pieces spread over all of them.
std::vector<std::string> texts_to_learn_from(const std::vector<TextPart>& parts);

/// The tokenizer in the folder of --from or --tokenizer, or one learned from the training texts
/// (texts_to_learn_from).
datasets::LanguageTokenizer make_tokenizer(const TrainConfig& config, const Texts& texts);

/// Texts as ids, one after the other, with <|endoftext|> before each document if the tokenizer has
/// it. Within a text this token is predicted too, because it ends the previous document.
struct EncodedTexts {
  datasets::TokenStream ids;
  std::vector<int64_t> ends;  ///< ends of the texts in `ids`; no text is empty
  int64_t bytes = 0;          ///< of the predicted tokens: all but the first of each text
  int64_t tokens = 0;         ///< number of predicted tokens
  int64_t documents = 0;
  int64_t marks = 0;  ///< marks between documents of a text; their bytes count
};
EncodedTexts encode_texts(const std::vector<std::string>& texts,
                          const datasets::LanguageTokenizer& tokenizer,
                          const std::string& mark = kEndOfText);

/// Calls visit(line) for each line of the documents, without its line end. Cuts lines at 64 KiB.
void for_each_line(const EncodedTexts& texts, const datasets::LanguageTokenizer& tokenizer,
                   const std::function<void(const std::string&)>& visit);

/// Tokenised texts. The ids are in a file, so that memory does not grow with the texts.
struct Corpus {
  datasets::LanguageTokenizer tokenizer;
  EncodedTexts train, valid;
  double bytes_per_token = 1;       ///< of the training text
  std::string checksum;             ///< of all ids, so that a run resumes with the same data
  datasets::TokenStream file = {};  ///< all ids, with notes on the texts, for the run's folder
};
/// Writes the ids to an unnamed file near `folder`. Reads the texts in pieces, but gives the ids of
/// whole texts.
Corpus encode_corpus(const Texts& texts, const datasets::LanguageTokenizer& tokenizer,
                     const std::string& folder = ".");
/// The corpus in the file at `path`, where a run keeps it; empty if the file is missing. IoError:
/// the file is damaged or from another tokenizer, or the texts have changed since.
std::optional<Corpus> open_corpus(const TrainConfig& config, const std::string& path,
                                  const datasets::LanguageTokenizer& tokenizer);
/// Training batches with the configuration's sizes and seed.
datasets::Loader<datasets::WindowBatch> training_batches(const TrainConfig& config,
                                                         const Corpus& corpus);

/// The vocabulary in the folder of --from or --tokenizer, or one learned from the training texts.
datasets::WordPiece make_pieces(const TrainConfig& config, const Texts& texts);

struct BertCorpus {
  std::optional<datasets::WordPiece> tokenizer;
  std::shared_ptr<const datasets::Documents> train, valid;  ///< valid may be empty
  std::string checksum;              ///< of all ids, so that a run resumes with the same data
  int64_t documents = 0, marks = 0;  ///< in all texts
};
/// Error: sentence pairs are wanted, but no training document, or no validation document, has two
/// sentences.
BertCorpus encode_documents(const TrainConfig& config, const Texts& texts,
                            const datasets::WordPiece& pieces);
/// Texts as documents for a model with a context of `context` tokens.
std::shared_ptr<const datasets::Documents> documents_of(const std::vector<std::string>& texts,
                                                        const datasets::WordPiece& pieces,
                                                        int64_t context);

/// Whether any document has two sentences.
bool has_pairs(const datasets::Documents& text);

/// Options of bert_loader, with the configuration's sizes and seed.
datasets::BertLoaderOptions loader_options(const TrainConfig& config);
datasets::Loader<datasets::BertBatch> training_batches(const TrainConfig& config,
                                                       const BertCorpus& corpus);

}  // namespace tern::apps::lm
