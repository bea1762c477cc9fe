// Inside of data only: the table of SentencePiece's normalisation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data::detail {

/// "precompiled_charsmap": a double array (Darts, Yata et al. 2007) from characters to places in a
/// list of texts, and these, as base64. Nothing in it is trusted: a walk that leaves the array
/// ends.
class CharsMap {
 public:
  /// Error: no base64, or lengths that do not fit.
  explicit CharsMap(std::string_view base64);
  /// Replaces every grapheme of up to 5 bytes that the table has, else each of its characters.
  std::string apply(std::string_view text) const;

 private:
  /// Whether something stands for the beginning of `part`; it is added to `out` then.
  bool transform(std::string_view part, std::string& out) const;
  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a NUL
};

}  // namespace tern::data::detail
