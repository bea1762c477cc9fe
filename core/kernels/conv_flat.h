// Planes laid out so that every tap of a convolution reads vectors at one distance from the output,
// without bounds: output cell q sums w[k] * x[q + at[k]]. Inside of core only.
//
// The cells of a plane stand row after row in one array, with zeros between the rows for the
// padding. A row's zeros serve the end of this row and the beginning of the next. Some cells
// between the rows of outputs hold sums that mean nothing, and are not copied out. Several images
// stand one after the other like slices of a depth.
//   With stride s an axis of x is cut into phases: cell m of phase f is element m s + f of the
// padded axis, so tap k reads phase k dilation mod s, k dilation / s cells further on.
//   The gradient by x is the same with the sides exchanged: elements of dx are cut into phases, and
// each phase sums over those taps that reach it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "tern/core/kernels/conv.h"

namespace tern::kernels {

/// Cells [begin, end) of a phase hold elements first + cell * step of an axis in memory.
struct FlatRun {
  int64_t first, begin, end;
};

struct FlatAxis {
  struct Tap {
    int64_t index, shift;  ///< in the kernel; in cells
    std::size_t x, y;      ///< phases
  };
  int64_t outputs = 1;  ///< cells of an output phase
  int64_t pitch = 1;    ///< distance between rows (slices, images) in units of this axis
  int64_t reach = 0;    ///< the largest shift
  int64_t x_step = 1, y_step = 1;
  std::vector<FlatRun> x, y;  ///< by phase
  std::vector<Tap> taps;      ///< without those that read nothing but padding
};

/// Which of its arrays an axis, a box of them or a whole plane is read from and computed into.
enum class FlatWay { forward, input_grad };

/// The phases of x (the array that is read) and y (the one computed) of a box of y, for some
/// images. `copies` planes of x, each with weights of its own, are summed into one of y.
struct Flat {
  struct Part {
    std::array<FlatRun, 3> runs;
  };
  struct Output : Part {
    /// Of the taps that reach this phase, in order: the place in w and that in the cells of x.
    std::vector<int64_t> index, at;
  };

  Flat(const Conv& c, FlatWay way, const Conv::Sizes& begin, const Conv::Sizes& end, int64_t images,
       int64_t copies);

  std::array<int64_t, 3> x_step, y_step;
  int64_t images, pitch[3];  ///< pitch: cells between images, slices and rows
  int64_t outputs;           ///< cells from the first output to the last one
  struct {
    int64_t cells, pitch;
  } sweep;                ///< so many cells are computed together: those of an image, or all
  int64_t cells;          ///< cells of a phase of x, with those that vectors touch beyond
  std::vector<Part> x;    ///< phases of depths, of heights and, fastest, of widths
  std::vector<Output> y;  ///< the same
  int64_t y_phases;       ///< of widths
};

/// A box of the outputs of some images, as parts of the whole work whose planes fit the cache.
class FlatPieces {
 public:
  /// `few`: cells of several images that are worth a piece.
  FlatPieces(const Conv& c, FlatWay way, int64_t copies, int64_t few);

  int64_t size() const { return bands_ * chunks_; }
  int64_t first_image(int64_t piece) const { return piece % chunks_ * images_; }
  Flat flat(int64_t piece) const;
  /// Whether a Flat of `piece` serves `other` as well.
  bool alike(int64_t piece, int64_t other) const {
    return piece / chunks_ == other / chunks_ && images_of(piece) == images_of(other);
  }

 private:
  int64_t images_of(int64_t piece) const;

  const Conv* conv_;
  FlatWay way_;
  int64_t copies_;
  std::size_t axis_ = 0;  ///< which is cut into bands
  int64_t bands_ = 1, chunks_ = 1, images_ = 1;
};

}  // namespace tern::kernels
