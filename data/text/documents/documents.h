// Text for pre-training as ids: documents made of sentences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tern/data/text/wordpiece/wordpiece.h"

namespace tern::datasets {

/// The ids of all sentences in order, and where sentences and documents end.
struct Documents {
  std::vector<int32_t> tokens;
  std::vector<int64_t> sentence_ends;  ///< end of sentence i in tokens; no sentence is empty
  std::vector<int64_t> document_ends;  ///< end of document i in sentences; no document is empty

  int64_t sentences() const { return static_cast<int64_t>(sentence_ends.size()); }
  int64_t size() const { return static_cast<int64_t>(document_ends.size()); }
  std::span<const int32_t> sentence(int64_t i) const;
  /// The sentences [first, last) of the document that contains sentence i.
  struct Range {
    int64_t first, last;
  };
  Range document_of(int64_t i) const;
};

struct DocumentOptions {
  /// A line with more tokens is cut into several sentences, between words if possible; 0: no limit.
  int64_t longest_sentence = 0;
};

/// Each line of a text is a sentence. Blank lines and the ends of texts separate documents. Names
/// of special pieces are ordinary text. Lines without tokens are skipped.
Documents make_documents(std::span<const std::string> texts, const WordPiece& pieces,
                         const DocumentOptions& options = {});
/// The same from text files, plain or gzip. IoError: as read_lines, or no file has a token.
Documents read_documents(std::span<const std::string> paths, const WordPiece& pieces,
                         const DocumentOptions& options = {});

}  // namespace tern::datasets
