// Splits texts into documents at marks such as <|endoftext|>. A line end directly after a mark is
// part of the mark.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tern::apps::lm {

/// Finds marks in a text that arrives in pieces, even if a mark spans several.
class MarkFinder {
 public:
  using Text = std::function<void(std::string_view)>;
  using Mark = std::function<void(int64_t)>;

  /// Calls `text` with the text between marks, in order and in any number of pieces, and `found`
  /// with the number of bytes of each mark. An empty mark is never found.
  MarkFinder(std::string mark, Text text, Mark found)
      : mark_(std::move(mark)), text_(std::move(text)), found_(std::move(found)) {}

  void add(std::string_view piece);
  void finish();

 private:
  void scan(std::string_view text, bool ended);

  std::string mark_;
  Text text_;
  Mark found_;
  std::string held_;     // may begin a mark, or the line end after a mark
  bool behind_ = false;  // a mark has just ended; its line end may follow
};

/// The documents of texts without marks; empty ones are left out. Adds the number of marks to
/// `marks`.
std::vector<std::string> cut_documents(const std::vector<std::string>& texts,
                                       const std::string& mark, int64_t* marks = nullptr);

}  // namespace tern::apps::lm
