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

}  // namespace tern::optim
