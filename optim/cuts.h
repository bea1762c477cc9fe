// Many tensors cut into pieces of bounded size, so that one parallel region takes them all. The
// cut depends on the sizes alone. Inside of optim only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tern::optim {

struct Piece {
  size_t item;
  int64_t begin, count;
};

/// Some 10 to 20 microseconds of work on one core.
constexpr int64_t kPieceSize = 16384;

inline void cut(std::vector<Piece>& pieces, size_t item, int64_t numel) {
  for (int64_t at = 0; at < numel; at += kPieceSize)
    pieces.push_back({item, at, std::min(kPieceSize, numel - at)});
}

/// What parallel_blocks wants to know: an element costs a few reads, writes and operations.
inline int64_t work(const std::vector<Piece>& pieces) {
  int64_t elements = 0;
  for (const Piece& piece : pieces) elements += piece.count;
  return 20 * elements;
}

}  // namespace tern::optim
