// A parser for patterns such as "b (h w) -> b h w". Errors name the position. expand_ellipsis()
// later replaces "..." by one piece per axis.
#include "tern/core/ops/einsum/einops_pattern.h"

#include <algorithm>
#include <charconv>

#include "tern/core/ops/einsum/identifier.h"

namespace tern::detail {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Whether c belongs to a word, valid or not: "...2" is not an ellipsis followed by 2.
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || is_digit(c) ||
         static_cast<unsigned char>(c) >= 0x80;
}

void expand_side(PatternSide& side, const Names& dots) {
  std::vector<PatternAxis> axes;
  for (PatternAxis& a : side.axes) {
    auto at = std::find(a.pieces.begin(), a.pieces.end(), "...");
    if (at != a.pieces.end() && !a.bracketed) {
      for (const std::string& d : dots) axes.push_back({{d}});
      continue;
    }
    if (at != a.pieces.end()) {
      at = a.pieces.erase(at);
      a.pieces.insert(at, dots.begin(), dots.end());
    }
    axes.push_back(a);
  }
  side.axes = std::move(axes);
}

}  // namespace

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

int64_t fixed_size(const std::string& piece) {
  int64_t n = 0;
  if (is_digit(piece[0])) std::from_chars(piece.data(), piece.data() + piece.find('@'), n);
  return n;
}

Names PatternSide::pieces() const {
  Names all;
  for (const PatternAxis& a : axes) all.insert(all.end(), a.pieces.begin(), a.pieces.end());
  return all;
}

Pattern::Pattern(const char* op, std::string_view text) : op_(op), text_(text) {
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) error("has no '->'");
  left = parse(0, arrow);
  right = parse(arrow + 2, text.size());
  for (const PatternAxis& a : left.axes)
    if (a.bracketed && contains(a.pieces, "...")) error("has '...' in brackets on the left");
  if (contains(right.pieces(), "...") && !contains(left.pieces(), "..."))
    error("has '...' on the right only");
}

void Pattern::expand_ellipsis(int ndim) {
  const bool any = contains(left.pieces(), "...");
  const int axes = static_cast<int>(left.axes.size()) - (any ? 1 : 0);
  if (any ? ndim < axes : ndim != axes)
    error("describes {}{} axes, but the tensor has {}", any ? "at least " : "", axes, ndim);
  Names dots;
  for (int i = axes; any && i < ndim; ++i) dots.push_back("..." + std::to_string(i - axes));
  expand_side(left, dots);
  expand_side(right, dots);
}

std::string Pattern::read_piece(size_t& at, size_t end) const {
  const size_t start = at;
  while (at < end && is_word(text_[at])) ++at;
  std::string piece = text_.substr(start, at - start);
  if (piece == "...") return piece;
  if (!is_digit(piece[0])) {
    if (!is_identifier(piece))
      error("has '{}' at position {}, which is neither a valid name (as in Python) nor '...'",
            piece, start);
    if (piece.front() == '_' || piece.back() == '_')
      error("has '{}' at position {}: a name must not begin or end with '_'", piece, start);
    return piece;
  }
  int64_t n = 0;
  auto [rest, status] = std::from_chars(piece.data(), piece.data() + piece.size(), n);
  if (status != std::errc() || rest != piece.data() + piece.size() || n < 1)
    error("has '{}' at position {}, which is neither a name nor a size", piece, start);
  return n == 1 ? std::string() : fmt::format("{}@{}", n, start);
}

PatternSide Pattern::parse(size_t at, size_t end) const {
  PatternSide side;
  bool inside = false;
  auto add = [&](const std::string& piece, size_t position) {
    if (!piece.empty() && contains(side.pieces(), piece))
      error("has '{}' twice on one side (position {})", piece, position);
    if (!inside) side.axes.emplace_back();
    if (!piece.empty()) side.axes.back().pieces.push_back(piece);
  };
  while (at < end) {
    const size_t position = at;
    const char c = text_[at];
    if (is_word(c)) {
      std::string piece = read_piece(at, end);
      add(piece, position);
      continue;
    }
    ++at;
    if (c == ' ') continue;
    if (c == '(' && !inside) {
      side.axes.push_back({{}, true});
      inside = true;
    } else if (c == ')' && inside) {
      inside = false;
    } else {
      error("has an unexpected '{}' at position {}", c, position);
    }
  }
  if (inside) error("has a '(' without its ')'");
  return side;
}

}  // namespace tern::detail
