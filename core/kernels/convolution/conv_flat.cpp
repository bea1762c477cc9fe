// Plans the cell layout of conv_flat.h: phases, taps and pitches along each axis, and the division
// of a batch into pieces that fit the cache.
#include "tern/core/kernels/convolution/conv_flat.h"

#include <algorithm>

#include "tern/core/base/ceil_div.h"

namespace tern::kernels {
namespace {

constexpr int64_t kCells = 4096;  // cells of a piece, about: they stay in the first caches
constexpr int64_t kLanes = 8;     // typical number of lanes of a vector
constexpr int64_t kBeyond = 16;   // cells that a vector may touch beyond the last

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

/// The cells that hold elements in [low, high), of `cells` cells, the first of which holds element
/// `first`.
FlatRun run_within(int64_t first, int64_t step, int64_t low, int64_t high, int64_t cells) {
  auto cell = [&](int64_t element) {  // the first cell at or after the element
    return std::clamp<int64_t>(-floor_div(first - element, step), 0, cells);
  };
  const int64_t begin = cell(low);
  return {first, begin, std::max(begin, cell(high))};
}

/// The index of the phase with this remainder in `known`. Adds it if it is new.
size_t phase_of(std::vector<int64_t>& known, int64_t remainder) {
  const auto at = std::find(known.begin(), known.end(), remainder);
  const size_t place = static_cast<size_t>(at - known.begin());
  if (at == known.end()) known.push_back(remainder);
  return place;
}

FlatAxis flat_axis(const Conv& c, size_t i, FlatWay way, int64_t begin, int64_t end) {
  const int64_t stride = c.stride[i], padding = c.padding[i];
  const bool forward = way == FlatWay::forward;
  FlatAxis a;
  a.x_step = forward ? stride : 1;
  a.y_step = forward ? 1 : stride;
  const int64_t first_cell = forward ? begin : (begin + padding) / stride;
  a.outputs = forward ? end - begin : (end - 1 + padding) / stride + 1 - first_cell;
  const int64_t origin = forward ? begin * stride - padding : first_cell;  // element of x, shift 0
  const int64_t bound = forward ? c.size[i] : c.out_size[i];
  std::vector<int64_t> x_phases, y_phases;
  if (forward) phase_of(y_phases, 0);
  int64_t lowest = 0;
  for (int64_t k = 0; k < c.kernel[i]; ++k) {
    const int64_t cells = k * c.dilation[i] / stride, phase = k * c.dilation[i] % stride;
    const size_t y = forward ? 0 : phase_of(y_phases, phase);
    const int64_t shift = forward ? cells : -cells, from = forward ? phase : 0;
    const FlatRun seen =
        run_within(origin + shift * a.x_step + from, a.x_step, 0, bound, a.outputs);
    if (seen.begin == seen.end) continue;
    lowest = a.taps.empty() ? shift : std::min(lowest, shift);
    a.taps.push_back({k, shift, phase_of(x_phases, from), y});
  }
  for (FlatAxis::Tap& t : a.taps) {
    t.shift -= lowest;
    a.reach = std::max(a.reach, t.shift);
  }
  a.pitch = std::max<int64_t>(a.outputs, 1);
  for (size_t x = 0; x < x_phases.size(); ++x) {
    int64_t cells = 0;
    for (const FlatAxis::Tap& t : a.taps)
      if (t.x == x) cells = std::max(cells, a.outputs + t.shift);
    a.x.push_back(run_within(origin + lowest * a.x_step + x_phases[x], a.x_step, 0, bound, cells));
    a.pitch = std::max({a.pitch, a.x[x].end, cells - a.x[x].begin});
  }
  for (const int64_t phase : y_phases)
    a.y.push_back(run_within(first_cell * a.y_step + phase - (forward ? 0 : padding), a.y_step,
                             begin, end, a.outputs));
  return a;
}

}  // namespace

Flat::Flat(const Conv& c, FlatWay way, const Conv::Sizes& begin, const Conv::Sizes& end,
           int64_t count, int64_t copies)
    : images(count) {
  std::array<FlatAxis, 3> a;
  for (size_t i = 0; i < 3; ++i) {
    a[i] = flat_axis(c, i, way, begin[i], end[i]);
    x_step[i] = a[i].x_step;
    y_step[i] = a[i].y_step;
  }
  pitch[2] = a[2].pitch;
  pitch[1] = pitch[2] * a[1].pitch;
  pitch[0] = pitch[1] * a[0].pitch;
  const int64_t alone =
      (a[0].outputs - 1) * pitch[1] + (a[1].outputs - 1) * pitch[2] + a[2].outputs;
  outputs = (images - 1) * pitch[0] + alone;
  // One sweep over all images computes useless cells between them. A sweep per image ends in a
  // shorter block of vectors.
  if (pitch[0] * 4 > ceil_div(alone, kLanes) * kLanes * 5)
    sweep = {alone, pitch[0]};
  else
    sweep = {outputs, images * pitch[0]};
  const int64_t reach = a[0].reach * pitch[1] + a[1].reach * pitch[2] + a[2].reach;
  cells = ceil_div(outputs + reach, kBeyond) * kBeyond + kBeyond;
  y_phases = std::ssize(a[2].y);
  for (const FlatRun& d : a[0].x)
    for (const FlatRun& h : a[1].x)
      for (const FlatRun& w : a[2].x) x.push_back({{d, h, w}});
  for (const FlatRun& d : a[0].y)
    for (const FlatRun& h : a[1].y)
      for (const FlatRun& w : a[2].y) y.push_back({{{d, h, w}}, {}, {}});
  auto add = [&](int64_t copy, const FlatAxis::Tap& d, const FlatAxis::Tap& h,
                 const FlatAxis::Tap& w) {
    const size_t from = (d.x * a[1].x.size() + h.x) * a[2].x.size() + w.x;
    Output& to = y[(d.y * a[1].y.size() + h.y) * a[2].y.size() + w.y];
    to.index.push_back(copy * c.taps() + (d.index * c.kernel[1] + h.index) * c.kernel[2] + w.index);
    to.at.push_back((copy * std::ssize(x) + static_cast<int64_t>(from)) * cells +
                    d.shift * pitch[1] + h.shift * pitch[2] + w.shift);
  };
  for (int64_t copy = 0; copy < copies; ++copy)
    for (const FlatAxis::Tap& d : a[0].taps)
      for (const FlatAxis::Tap& h : a[1].taps)
        for (const FlatAxis::Tap& w : a[2].taps) add(copy, d, h, w);
}

FlatPieces::FlatPieces(const Conv& c, FlatWay way, int64_t copies, int64_t few)
    : conv_(&c), way_(way), copies_(copies) {
  const Conv::Sizes& sizes = way == FlatWay::forward ? c.out_size : c.size;
  while (axis_ < 2 && sizes[axis_] == 1) ++axis_;
  const Flat one(c, way, {0, 0, 0}, sizes, 1, 1);
  const int64_t room = std::max<int64_t>(kCells / copies, 1);
  const int64_t size = static_cast<int64_t>(std::max<size_t>(one.x.size(), 1)) * one.cells;
  bands_ = std::clamp<int64_t>(ceil_div(size, room), 1, sizes[axis_]);
  if (bands_ == 1) images_ = std::clamp<int64_t>(few / size, 1, c.batch);
  chunks_ = ceil_div(c.batch, images_);
  images_ = ceil_div(c.batch, chunks_);
}

int64_t FlatPieces::images_of(int64_t piece) const {
  return std::min(images_, conv_->batch - first_image(piece));
}

Flat FlatPieces::flat(int64_t piece) const {
  const int64_t band = piece / chunks_;
  Conv::Sizes begin = {0, 0, 0}, end = way_ == FlatWay::forward ? conv_->out_size : conv_->size;
  const int64_t all = end[axis_];
  begin[axis_] = band * all / bands_;
  end[axis_] = (band + 1) * all / bands_;
  return Flat(*conv_, way_, begin, end, images_of(piece), copies_);
}

}  // namespace tern::kernels
