// Encodes lines as sentences, cuts long ones between words, and records where documents end.
#include "tern/data/text/documents/documents.h"

#include <algorithm>

#include "tern/core/base/error.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/wordpiece/wordpiece_pieces.h"

namespace tern::datasets {
namespace {

/// Collects sentences and documents in order.
class Collector {
 public:
  Collector(const WordPiece& pieces, const DocumentOptions& options)
      : pieces_(pieces), longest_(options.longest_sentence) {
    check(longest_ >= 0, "DocumentOptions: longest_sentence is {}; at least 0 (0: no limit)",
          longest_);
  }

  void add_line(std::string_view line) {
    if (strip_spaces(line).empty())
      end_document();
    else
      add_sentence(pieces_.encode_plain(line));
  }

  void end_document() {
    const int64_t begin = out_.document_ends.empty() ? 0 : out_.document_ends.back();
    if (out_.sentences() > begin) out_.document_ends.push_back(out_.sentences());
  }

  Documents take() { return std::move(out_); }

 private:
  void add_sentence(const std::vector<int64_t>& ids) {
    const int64_t n = std::ssize(ids);
    for (int64_t begin = 0; begin < n;) {
      const int64_t end = cut(ids, begin);
      for (int64_t i = begin; i < end; ++i) out_.tokens.push_back(static_cast<int32_t>(ids[i]));
      out_.sentence_ends.push_back(std::ssize(out_.tokens));
      begin = end;
    }
  }

  // The end of a sentence from `begin`: at most `longest_` tokens, between words if possible.
  int64_t cut(const std::vector<int64_t>& ids, int64_t begin) const {
    const int64_t n = std::ssize(ids);
    if (longest_ == 0 || n - begin <= longest_) return n;
    int64_t end = begin + longest_;
    while (end > begin && pieces_.piece(ids[end]).starts_with(detail::kContinued)) --end;
    return end > begin ? end : begin + longest_;
  }

  const WordPiece& pieces_;
  int64_t longest_;
  Documents out_;
};

}  // namespace

std::span<const int32_t> Documents::sentence(int64_t i) const {
  check(i >= 0 && i < sentences(), "Documents: there is no sentence {}; there are {}", i,
        sentences());
  const int64_t begin = i > 0 ? sentence_ends[i - 1] : 0;
  return std::span(tokens).subspan(begin, sentence_ends[i] - begin);
}

Documents::Range Documents::document_of(int64_t i) const {
  check(i >= 0 && i < sentences(), "Documents: there is no sentence {}; there are {}", i,
        sentences());
  const auto end = std::upper_bound(document_ends.begin(), document_ends.end(), i);
  return {end == document_ends.begin() ? 0 : *(end - 1), *end};
}

Documents make_documents(std::span<const std::string> texts, const WordPiece& pieces,
                         const DocumentOptions& options) {
  Collector collector(pieces, options);
  for (const std::string& text : texts) {
    for_each_line(text, [&](std::string_view line) { collector.add_line(line); });
    collector.end_document();
  }
  return collector.take();
}

Documents read_documents(std::span<const std::string> paths, const WordPiece& pieces,
                         const DocumentOptions& options) {
  check(!paths.empty(), "read_documents: no files");
  Collector collector(pieces, options);
  for (const std::string& path : paths) {
    for (const std::string& line : read_lines(path)) collector.add_line(line);
    collector.end_document();
  }
  Documents out = collector.take();
  check_io(out.sentences() > 0, "{}: no text in {}", paths.front(),
           paths.size() == 1 ? "it" : fmt::format("it and {} other files", paths.size() - 1));
  return out;
}

}  // namespace tern::datasets
