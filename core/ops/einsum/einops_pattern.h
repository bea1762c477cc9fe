// Parses the patterns of rearrange, reduce and repeat. Inside of core only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tern/core/ops/einsum/einsum.h"

namespace tern::detail {

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& name);

/// An axis made of pieces; "1" and "()" have none. A number is a piece without a name; it is kept
/// with its position ("2@5"), so that no two are equal.
struct PatternAxis {
  Names pieces;
  bool bracketed = false;
};

struct PatternSide {
  std::vector<PatternAxis> axes;
  Names pieces() const;
};

/// A pattern "left -> right". Errors name the op, the pattern and the place.
class Pattern {
 public:
  Pattern(const char* op, std::string_view text);

  /// Replaces the ellipsis by unnamed pieces, for a tensor with this number of axes.
  void expand_ellipsis(int ndim);

  PatternSide left, right;

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> message, Args&&... args) const {
    fail(fmt::format("{}: \"{}\" {}", op_, text_,
                     fmt::format(message, std::forward<Args>(args)...)));
  }

 private:
  PatternSide parse(size_t at, size_t end) const;
  std::string read_piece(size_t& at, size_t end) const;
  const char* op_;
  std::string text_;
};

/// The size of a piece that is a number, else 0.
int64_t fixed_size(const std::string& piece);

}  // namespace tern::detail
