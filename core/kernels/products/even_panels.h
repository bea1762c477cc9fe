// Chooses the panels of a product on many threads. Inside of core only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/threads.h"

namespace tern::kernels {

/// The number of threads that may take parts of a loop. Up to kFewThreads, few panels are enough.
inline int64_t loop_threads() { return in_serial() ? 1 : num_threads(); }
constexpr int64_t kFewThreads = 4;

/// Cuts tiles x strips into panels for many threads. Threads get about equal numbers of panels, of
/// about equal size, and the panels are close to squares, which read least.
class EvenPanels {
 public:
  int64_t rows = 1, columns = 1;  ///< panels per column, and per row

  EvenPanels(int64_t tiles, int64_t tile_rows, int64_t strips, int64_t strip_columns,
             int64_t threads)
      : tiles_(tiles),
        tile_rows_(tile_rows),
        strips_(strips),
        strip_columns_(strip_columns),
        threads_(threads) {
    for (int64_t each = 1; each <= 3; ++each) {
      const int64_t panels = each * threads;
      for (int64_t height : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16})
        if (height <= tiles) consider(ceil_div(tiles, height), panels / ceil_div(tiles, height));
      for (int64_t c : {1, 2, 3, 4, 6, 8, 12, 16})
        if (c <= strips) consider(panels / c, c);
    }
  }

 private:
  void consider(int64_t r, int64_t c) {
    constexpr double kReads = 16;  // cost of reading an element, in multiplications
    r = std::clamp<int64_t>(r, 1, tiles_);
    c = std::clamp<int64_t>(c, 1, strips_);
    const auto height = static_cast<double>(ceil_div(tiles_, r) * tile_rows_);
    const auto width = static_cast<double>(ceil_div(strips_, c) * strip_columns_);
    const double time = static_cast<double>(ceil_div(r * c, threads_)) *
                        (height * width + kReads * (height + width));
    if (best_ > 0 && time >= best_) return;
    best_ = time;
    rows = r;
    columns = c;
  }

  int64_t tiles_, tile_rows_, strips_, strip_columns_, threads_;
  double best_ = 0;
};

}  // namespace tern::kernels
