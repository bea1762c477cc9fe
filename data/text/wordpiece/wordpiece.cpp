// Reads, writes and applies a WordPiece vocabulary. basic_tokens.cpp cuts the text into words,
// wordpiece_learn.cpp learns.
#include "tern/data/text/wordpiece/wordpiece.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/safetensors.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/wordpiece/wordpiece_pieces.h"

namespace tern::datasets {
namespace {

using detail::kContinued;
using detail::kSpecialPieces;

// The fault of an invalid piece; empty for a valid one.
std::string_view fault_of(std::string_view piece) {
  if (piece.empty()) return "is empty";
  if (piece.find_first_of("\r\n") != piece.npos) return "has a line end";
  if (find_invalid_utf8(piece)) return "is not valid UTF-8";
  return "";
}

// Whether the piece has no space before it, as in the decoder of the `tokenizers` package.
bool closes(std::string_view piece) {
  constexpr std::array<std::string_view, 9> kClosing = {".",  "?",  "!",   ",",  "n't",
                                                        "'m", "'s", "'ve", "'re"};
  return std::any_of(kClosing.begin(), kClosing.end(),
                     [&](std::string_view start) { return piece.starts_with(start); });
}

}  // namespace

WordPiece::WordPiece(std::vector<std::string> pieces, const WordPieceOptions& options)
    : pieces_(std::move(pieces)), options_(options) {
  check(options.longest_word >= 1, "WordPiece: longest_word is {}; at least 1",
        options.longest_word);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const std::string_view fault = fault_of(pieces_[i]);
    check(fault.empty(), "WordPiece: piece {} {}", i + 1, fault);
    const auto [at, is_new] = ids_.emplace(pieces_[i], static_cast<int64_t>(i));
    check(is_new, "WordPiece: piece {} is '{}', and so is piece {}", i + 1, pieces_[i],
          at->second + 1);
    longest_piece_ = std::max(longest_piece_, pieces_[i].size());
  }
  unknown_id();
}

WordPiece WordPiece::load(const std::string& path, const WordPieceOptions& options) {
  std::vector<std::string> lines = read_lines(path);
  return reading(path + ": not a vocabulary with one piece per line",
                 [&] { return WordPiece(std::move(lines), options); });
}

void WordPiece::save(const std::string& path) const {
  std::string text;
  for (const std::string& piece : pieces_) text += piece + "\n";
  write_file_atomically(path, text);
}

const std::string& WordPiece::piece(int64_t id) const {
  check(id >= 0 && id < size(), "WordPiece: no id {}; there are 0 to {}", id, size() - 1);
  return pieces_[static_cast<size_t>(id)];
}

std::optional<int64_t> WordPiece::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

int64_t WordPiece::special(size_t which) const {
  const std::optional<int64_t> id = find(kSpecialPieces[which]);
  check(id.has_value(), "WordPiece: the vocabulary of {} pieces has no {}", size(),
        kSpecialPieces[which]);
  return *id;
}

int64_t WordPiece::pad_id() const { return special(0); }
int64_t WordPiece::unknown_id() const { return special(1); }
int64_t WordPiece::begin_id() const { return special(2); }
int64_t WordPiece::separator_id() const { return special(3); }
int64_t WordPiece::mask_id() const { return special(4); }

bool WordPiece::is_special(int64_t id) const {
  return std::find(kSpecialPieces.begin(), kSpecialPieces.end(), piece(id)) != kSpecialPieces.end();
}

void WordPiece::append_word(const std::string& word, std::vector<int64_t>& ids) const {
  const auto pieces =
      detail::longest_pieces(word, {kContinued, options_.longest_word, longest_piece_},
                             [&](std::string_view piece) { return find(piece); });
  if (pieces)
    ids.insert(ids.end(), pieces->begin(), pieces->end());
  else
    ids.push_back(unknown_id());
}

std::vector<int64_t> WordPiece::encode_plain(std::string_view text) const {
  std::vector<int64_t> ids;
  for (const std::string& word : basic_tokens(text, options_)) append_word(word, ids);
  return ids;
}

std::vector<int64_t> WordPiece::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  auto append = [&](std::string_view part) {
    for (int64_t id : encode_plain(part)) ids.push_back(id);
  };
  size_t begin = 0;
  for (size_t at = text.find('['); at != text.npos; at = text.find('[', at)) {
    const std::string_view rest = text.substr(at);
    const auto name = std::find_if(kSpecialPieces.begin(), kSpecialPieces.end(),
                                   [&](std::string_view n) { return rest.starts_with(n); });
    const std::optional<int64_t> id = name == kSpecialPieces.end() ? std::nullopt : find(*name);
    if (!id) {
      ++at;
      continue;
    }
    append(text.substr(begin, at - begin));
    ids.push_back(*id);
    begin = at += name->size();
  }
  append(text.substr(begin));
  return ids;
}

std::string WordPiece::decode(std::span<const int64_t> ids) const {
  std::string text;
  bool first = true;
  for (int64_t id : ids) {
    const std::string_view p = piece(id);
    if (p == kSpecialPieces[0] || p == kSpecialPieces[2] || p == kSpecialPieces[3]) continue;
    if (!first && p.starts_with(kContinued)) {
      text += p.substr(kContinued.size());
    } else {
      if (!first && !closes(p)) text += ' ';
      text += p;
    }
    first = false;
  }
  return text;
}

BertTokens bert_tokens(const WordPiece& pieces, std::span<const int64_t> a,
                       const std::optional<std::vector<int64_t>>& b) {
  BertTokens out{{pieces.begin_id()}, {}};
  out.tokens.insert(out.tokens.end(), a.begin(), a.end());
  out.tokens.push_back(pieces.separator_id());
  out.segments.assign(out.tokens.size(), 0);
  if (!b) return out;
  out.tokens.insert(out.tokens.end(), b->begin(), b->end());
  out.tokens.push_back(pieces.separator_id());
  out.segments.resize(out.tokens.size(), 1);
  return out;
}

}  // namespace tern::datasets
