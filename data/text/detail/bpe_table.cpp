#include "tern/data/text/detail/bpe_table.h"

#include <fmt/core.h>

#include <queue>
#include <tuple>

#include "tern/data/text/unicode.h"

namespace tern::data::detail {
namespace {

uint64_t key_of(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

/// A piece in the chain of those that are left; id -1: it went into the one before.
struct Piece {
  int64_t id;
  int64_t before, after;  // places; -1 and the number of pieces at the ends
};

/// A pair of neighbours that may have changed since.
struct Pair {
  int64_t rank, place, left, right, id;
  bool operator<(const Pair& o) const {  // in the queue, the first to merge is on top
    return std::tie(rank, place) > std::tie(o.rank, o.place);
  }
};

}  // namespace

bool MergeTable::add(int64_t left, int64_t right, int64_t id) {
  return merged_.emplace(key_of(left, right), Merged{size(), id}).second;
}

const MergeTable::Merged* MergeTable::find(int64_t left, int64_t right) const {
  const auto found = merged_.find(key_of(left, right));
  return found == merged_.end() ? nullptr : &found->second;
}

std::vector<int64_t> MergeTable::merge(const std::vector<int64_t>& ids) const {
  const auto count = static_cast<int64_t>(ids.size());
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < count; ++i) pieces.push_back({ids[i], i - 1, i + 1});
  std::priority_queue<Pair> queue;
  auto push = [&](int64_t place) {
    const int64_t next = place < 0 ? count : pieces[place].after;
    if (next >= count) return;
    const int64_t left = pieces[place].id, right = pieces[next].id;
    if (const Merged* m = find(left, right)) queue.push({m->rank, place, left, right, m->id});
  };
  for (int64_t i = 0; i + 1 < count; ++i) push(i);
  while (!queue.empty()) {
    const Pair pair = queue.top();
    queue.pop();
    Piece& piece = pieces[pair.place];
    const int64_t next = piece.after;
    if (piece.id != pair.left || next >= count || pieces[next].id != pair.right) continue;
    piece.id = pair.id;
    piece.after = pieces[next].after;
    pieces[next].id = -1;
    if (piece.after < count) pieces[piece.after].before = pair.place;
    push(pair.place);
    push(piece.before);
  }
  std::vector<int64_t> merged;
  for (const Piece& piece : pieces)
    if (piece.id >= 0) merged.push_back(piece.id);
  return merged;
}

std::string shown_piece(std::string_view bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t begin = at;
    next_code_point(bytes, at);
    const std::string_view one = bytes.substr(begin, at - begin);
    const auto byte = static_cast<unsigned char>(one[0]);
    if (one == " ")
      out += "▁";
    else if (find_invalid_utf8(one) || byte < 0x20 || byte == 0x7F)
      out += fmt::format("<{:02X}>", byte);
    else
      out += one;
  }
  return out;
}

}  // namespace tern::data::detail
