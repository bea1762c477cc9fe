// Planes laid out so that every tap of a convolution reads vectors at a fixed distance from the
// output, without bounds: output cell q sums w[k] * x[q + at[k]]. Inside of core only.
//
// The cells of a plane stand row after row in one array, with zeros between the rows for the
// padding. The zeros after a row serve the end of this row and the beginning of the next. Some
// cells between the rows of outputs hold meaningless sums, which are not copied out. Several images
// stand one after the other, like slices of a depth.
//   With stride s an axis of x is cut into phases: cell m of phase f is element m s + f of the
// padded axis. So tap k reads phase k dilation mod s, k dilation / s cells further on.
//   The gradient by x works the same with the sides exchanged: elements of dx are cut into phases,
// and each phase sums over the taps that reach it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "tern/core/kernels/convolution/conv.h"

namespace tern::kernels {

/// Cells [begin, end) of a phase hold elements first + cell * step of an axis in memory.
struct FlatRun {
  int64_t first, begin, end;
};

struct FlatAxis {
  struct Tap {
    int64_t index, shift;  ///< index in the kernel; shift in cells
    std::size_t x, y;      ///< phases of x and y
  };
  int64_t outputs = 1;  ///< cells of an output phase
  int64_t pitch = 1;    ///< distance between rows (slices, images) in units of this axis
  int64_t reach = 0;    ///< the largest shift
  int64_t x_step = 1, y_step = 1;
  std::vector<FlatRun> x, y;  ///< by phase
  std::vector<Tap> taps;      ///< without taps that read only padding
};

/// The direction of a computation: from x to y, or from dy to dx.
enum class FlatWay { forward, input_grad };

/// The cell layout for computing a box of y, for some images: the phases of x (the array that is
/// read) and of y (the array that is computed). `copies` planes of x, each with weights of its own,
/// are summed into one plane of y.
struct Flat {
  struct Part {
    std::array<FlatRun, 3> runs;
  };
  struct Output : Part {
    /// For the taps that reach this phase, in order: the index in w, and the offset in x's cells.
    std::vector<int64_t> index, at;
  };

  Flat(const Conv& c, FlatWay way, const Conv::Sizes& begin, const Conv::Sizes& end, int64_t images,
       int64_t copies);

  std::array<int64_t, 3> x_step, y_step;
  int64_t images, pitch[3];  ///< pitch: cells between images, slices and rows
  int64_t outputs;           ///< cells from the first output to the last one
  struct {
    int64_t cells, pitch;
  } sweep;                ///< cells that are computed together: those of one image, or all
  int64_t cells;          ///< cells of a phase of x, including those that vectors touch beyond it
  std::vector<Part> x;    ///< phases of depths, heights and widths; widths vary fastest
  std::vector<Output> y;  ///< in the same order
  int64_t y_phases;       ///< number of phases of widths
};

/// The division of the whole work into pieces whose planes fit the cache. A piece is a box of the
/// outputs of some images.
class FlatPieces {
 public:
  /// `few`: the number of cells up to which several images form one piece.
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
  std::size_t axis_ = 0;  ///< the axis that is cut into bands
  int64_t bands_ = 1, chunks_ = 1, images_ = 1;
};

}  // namespace tern::kernels
