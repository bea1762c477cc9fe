// Text for pre-training as ids: documents of sentences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tern/data/text/wordpiece.h"

namespace tern::data {

/// The ids of all sentences one after the other, and where sentences and documents end.
struct Documents {
  std::vector<int32_t> tokens;
  std::vector<int64_t> sentence_ends;  ///< of sentence i in tokens; none is empty
  std::vector<int64_t> document_ends;  ///< of document i in sentences; none is empty

  int64_t sentences() const { return static_cast<int64_t>(sentence_ends.size()); }
  int64_t size() const { return static_cast<int64_t>(document_ends.size()); }
  std::span<const int32_t> sentence(int64_t i) const;
  int64_t sentence_length(int64_t i) const;
  /// The sentences of the document that sentence i is in: [first, last).
  struct Range {
    int64_t first, last;
  };
  Range document_of(int64_t i) const;
};

struct DocumentOptions {
  /// A line of more tokens counts as several sentences, cut between words where that is possible;
  /// 0: any number.
  int64_t longest_sentence = 0;
};

/// A line is a sentence, blank lines are between documents, as is the end of a file. Names of
/// special pieces are text like any other. Lines without a token are left out.
Documents make_documents(std::span<const std::string> lines, const WordPiece& pieces,
                         const DocumentOptions& options = {});
/// The same from text files, plain or gzip. IoError: as read_lines; no file has a token.
Documents read_documents(std::span<const std::string> paths, const WordPiece& pieces,
                         const DocumentOptions& options = {});

}  // namespace tern::data
