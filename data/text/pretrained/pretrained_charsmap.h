// The table of SentencePiece's normalisation. Inside of data only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::datasets::detail {

/// "precompiled_charsmap" in base64: a double array (Darts, Yata et al. 2007) from characters to
/// positions in a list of texts, and the list. It is not trusted: a walk that leaves the array
/// ends.
class CharsMap {
 public:
  /// Error: invalid base64, or lengths that do not match.
  explicit CharsMap(std::string_view base64);
  /// Replaces every known grapheme of up to 5 bytes; in others each known character.
  std::string apply(std::string_view text) const;

 private:
  /// If the table has the beginning of `part`, appends its replacement to `out` and returns true.
  bool transform(std::string_view part, std::string& out) const;
  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a NUL
};

}  // namespace tern::datasets::detail
