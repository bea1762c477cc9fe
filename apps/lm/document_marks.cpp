// Searches for marks in a stream of pieces, and holds back what may be the beginning of one.
#include "tern/apps/lm/document_marks.h"

#include <algorithm>
#include <utility>

namespace tern::apps::lm {
namespace {

/// The number of bytes at the end of a text that may begin a mark.
size_t begun(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n)
    if (text.ends_with(mark.substr(0, n))) return n;
  return 0;
}

/// Bytes of the line end at the start of a text; npos if that depends on the text that follows.
size_t line_end(std::string_view text, bool ended) {
  if (text.starts_with('\n')) return 1;
  if (text.starts_with("\r\n")) return 2;
  if (!ended && (text.empty() || text == "\r")) return std::string_view::npos;
  return text.starts_with('\r') ? 1 : 0;
}

}  // namespace

void MarkFinder::add(std::string_view piece) {
  if (mark_.empty()) return text_(piece);
  if (held_.empty() && !behind_) return scan(piece, false);
  const std::string text = std::exchange(held_, "") + std::string(piece);
  scan(text, false);
}

void MarkFinder::finish() {
  const std::string text = std::exchange(held_, "");
  scan(text, true);
}

void MarkFinder::scan(std::string_view text, bool ended) {
  while (true) {
    if (behind_) {
      const size_t end = line_end(text, ended);
      if (end == text.npos) break;
      text.remove_prefix(end);
      behind_ = false;
      found_(static_cast<int64_t>(mark_.size() + end));
    }
    const size_t at = mark_.empty() ? text.npos : text.find(mark_);
    if (at == text.npos) {
      const size_t keep = ended ? 0 : begun(text, mark_);
      if (text.size() > keep) text_(text.substr(0, text.size() - keep));
      text.remove_prefix(text.size() - keep);
      break;
    }
    if (at > 0) text_(text.substr(0, at));
    text.remove_prefix(at + mark_.size());
    behind_ = true;
  }
  held_ = text;
}

std::vector<std::string> cut_documents(const std::vector<std::string>& texts,
                                       const std::string& mark, int64_t* marks) {
  std::vector<std::string> documents;
  std::string document;
  auto end = [&] {
    if (!document.empty()) documents.push_back(std::exchange(document, ""));
  };
  for (const std::string& text : texts) {
    MarkFinder finder(
        mark, [&](std::string_view piece) { document += piece; },
        [&](int64_t) {
          end();
          if (marks) ++*marks;
        });
    finder.add(text);
    finder.finish();
    end();
  }
  return documents;
}

}  // namespace tern::apps::lm
