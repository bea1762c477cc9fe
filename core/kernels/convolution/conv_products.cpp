// Convolutions and their gradients as one product for all pictures of a batch:
//   y   (out, outputs)  = w (out, features) x windows of x (features, outputs)
//   dx  (in, inputs)    = w, taps turned around (in, features) x windows of dy (features, inputs)
//   dw  (out, features) = dy (out, outputs) x windows of x (outputs, features)
// With a stride s, dx is divided into s phases along each axis. Each phase is a convolution of dy
// with every s-th tap.
#include "tern/core/kernels/convolution/conv_products.h"

#include <numeric>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/bf16/gemm_bf16.h"
#include "tern/core/kernels/convolution/conv_windows.h"
#include "tern/core/kernels/convolution/conv_winograd.h"
#include "tern/core/kernels/products/gemm_tiles.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr double kWorthSharing = 2e6;      // multiplications and additions of a group
constexpr int64_t kColumnsAlone = 256;     // columns of a product that one thread computes
constexpr int64_t kGrainOfWeights = 4096;  // weights moved per thread
constexpr int64_t kGrainOfZeros = 16384;   // zeros written per thread

bool in_bf16() { return matmul_precision() == MatmulPrecision::bf16; }

void multiply_alone(const Product<float>& p) { in_bf16() ? multiply_bf16(p) : multiply_tiles(p); }

/// y = w * windows of x. `places`: the places of y's columns, relative to a group's first channel.
/// Rows are channels, `channel_step` apart. w (groups, out_group, features).
struct Forward {
  const Conv& c;
  Factor x;
  const float *w, *bias;
  float* y;
  int64_t channel_step;
  ColumnPlaces places;

  void run() const {
    if (!in_quads()) return multiply(w);
    const int64_t k = Windows::quads_of(c) * 4 * c.taps();
    Scratch<float> ordered(c.out * k);
    order_weights(ordered.data(), k);
    multiply(ordered.data());
  }

 private:
  /// bf16 tiles take four channels at once, where filling up the last ones costs little.
  bool in_quads() const { return in_bf16() && c.in_group() >= 8; }

  /// The weights in the order of Windows::Order::quads: rows of k.
  void order_weights(float* to, int64_t k) const {
    const int64_t in = c.in_group(), taps = c.taps();
    parallel_for(c.out, 1 + kGrainOfWeights / k, [=, this](int64_t begin, int64_t end) {
      std::fill(to + begin * k, to + end * k, 0.f);
      for (int64_t o = begin; o < end; ++o)
        for (int64_t i = 0; i < in; ++i) {
          const float* from = w + (o * in + i) * taps;
          float* row = to + o * k + i / 4 * 4 * taps + i % 4;
          for (int64_t t = 0; t < taps; ++t) row[4 * t] = from[t];
        }
    });
  }

  void multiply(const float* weights) const {
    const double flops = 2 * static_cast<double>(c.work());
    const bool shared = flops >= kWorthSharing * static_cast<double>(c.groups) && c.groups <= 4;
    const int64_t columns = c.batch * c.out_plane();
    if (shared) {
      for (int64_t g = 0; g < c.groups; ++g) run_group(weights, g, 0, columns, /*shared=*/true);
      return;
    }
    const int64_t parts = ceil_div(columns, kColumnsAlone);
    parallel_blocks(c.groups * parts, c.work(), [&](int64_t task) {
      const int64_t first = task % parts * kColumnsAlone;
      run_group(weights, task / parts, first, std::min(kColumnsAlone, columns - first),
                /*shared=*/false);
    });
  }

  void run_group(const float* weights, int64_t group, int64_t column, int64_t columns,
                 bool shared) const {
    const Windows windows(c, in_quads() ? Windows::Order::quads : Windows::Order::planes, x,
                          group * c.in_group());
    const int64_t m = c.out_group(), k = windows.features();
    const ConvFactors factors{&windows, 0, column, {}, places};
    Product<float> p{m, columns, k, {weights + group * m * k, {k, 1}}, {}};
    p.c = y + group * m * channel_step;
    p.ldc = channel_step;
    p.conv = &factors;
    PanelDone done;
    if (bias) done = [&, from = bias + group * m](const Panel& panel) { add_bias(p, from, panel); };
    if (!shared) {
      multiply_alone(p);
      if (done) done({0, m, columns, columns});
    } else if (in_bf16()) {
      multiply_bf16_together(p, done);
    } else {
      multiply_tiles_together(p, done);
    }
  }

  static void add_bias(const Product<float>& p, const float* from, const Panel& panel) {
    const int64_t row = panel.offset / panel.stride;
    const int64_t first = p.conv->column + panel.offset % panel.stride;
    for (int64_t j = 0; j < panel.cols;) {
      const int64_t count = std::min(p.conv->c.run(first + j), panel.cols - j);
      float* to = p.c + p.conv->c.of(first + j);
      for (int64_t r = row; r < row + panel.rows; ++r)
        simd([=, step = p.conv->c.step, at = to + r * p.ldc, b = from[r]] {
          if (step == 1)
            for (int64_t i = 0; i < count; ++i) at[i] += b;
          else
            for (int64_t i = 0; i < count; ++i) at[i * step] += b;
        });
      j += count;
    }
  }
};

/// The elements phase, phase + stride, ... of one axis of dx. They are the outputs of a convolution
/// of dy with the taps tap, tap + tap_step, ... in reverse order.
struct PhaseAxis {
  int64_t size, taps, tap, tap_step;
  int64_t dilation, padding;

  PhaseAxis(int64_t phase, int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t spread)
      : size(ceil_div(in - phase, stride)), taps(0), tap(0), dilation(1), padding(0) {
    const int64_t common = std::gcd(stride, spread);
    tap_step = stride / common;
    dilation = spread / common;
    while (tap < kernel && (phase + pad - tap * spread) % stride != 0) ++tap;
    if (tap < kernel) taps = ceil_div(kernel - tap, tap_step);
    // The last tap reads the first element.
    padding = -(phase + pad - (tap + (taps - 1) * tap_step) * spread) / stride;
  }
};

/// The weights for one phase of dx: to (groups, in_group, out_group, taps of the phase in reverse
/// order).
void turn_weights(const Conv& c, const std::array<PhaseAxis, 3>& axes, const float* w, float* to) {
  const auto& [d, h, wide] = axes;
  const int64_t taps = d.taps * h.taps * wide.taps, in = c.in_group(), out = c.out_group();
  Scratch<int64_t> from(taps);
  int64_t* next = from.data();
  for (int64_t i = d.taps - 1; i >= 0; --i)
    for (int64_t j = h.taps - 1; j >= 0; --j)
      for (int64_t k = wide.taps - 1; k >= 0; --k)
        *next++ = ((d.tap + i * d.tap_step) * c.kernel[1] + h.tap + j * h.tap_step) * c.kernel[2] +
                  wide.tap + k * wide.tap_step;
  constexpr int64_t kTogether = 8;  // channels whose rows are written together
  const int64_t row = out * taps;
  const int64_t grain = 1 + kGrainOfWeights / (kTogether * row + 1);
  parallel_for(ceil_div(c.in, kTogether), grain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t i = block * kTogether; i < std::min(c.in, (block + 1) * kTogether); ++i) {
          const float* tap = w + ((i / in * out + o) * in + i % in) * c.taps();
          for (int64_t t = 0; t < taps; ++t) to[i * row + o * taps + t] = tap[from.data()[t]];
        }
  });
}

void input_phase(const Conv& c, const std::array<PhaseAxis, 3>& axes,
                 const std::array<int64_t, 3>& phase, const float* dy, const float* w, float* dx) {
  Conv turned;
  turned.batch = c.batch;
  turned.in = c.out;
  turned.out = c.in;
  turned.groups = c.groups;
  turned.size = c.out_size;
  for (size_t a = 0; a < 3; ++a) {
    turned.out_size[a] = axes[a].size;
    turned.kernel[a] = axes[a].taps;
    turned.padding[a] = axes[a].padding;
    turned.dilation[a] = axes[a].dilation;
  }
  Scratch<float> weights(c.in * c.out_group() * turned.taps());
  turn_weights(c, axes, w, weights.data());
  ColumnPlaces places = ColumnPlaces::planes(c.plane(), c.in * c.plane());
  if (c.stride != Conv::Sizes{1, 1, 1})
    places = {turned.out_plane(),
              axes[1].size,
              axes[2].size,
              c.stride[2],
              c.stride[1] * c.size[2],
              c.stride[0] * c.size[1] * c.size[2],
              c.in * c.plane()};
  float* to = dx + (phase[0] * c.size[1] + phase[1]) * c.size[2] + phase[2];
  Forward{turned, dy, weights.data(), nullptr, to, c.plane(), places}.run();
}

/// The number of phases of an axis that have elements.
int64_t phases_of(const Conv& c, size_t axis) { return std::min(c.stride[axis], c.size[axis]); }

/// The division of the weight gradient: into panels of some blocks of channels, and into parts of
/// the sums. The parts depend only on the shape. Panels may depend on the number of threads, since
/// they do not change any bit.
struct WeightCut {
  bool winograd;
  int64_t blocks, panels, splits;

  WeightCut(const Conv& c, bool by_squares) : winograd(by_squares) {
    constexpr int64_t kBlocksEach = 4, kTasks = 32, kLeast = 512, kMostPartial = int64_t{1} << 22;
    constexpr double kTask = 2e6;
    blocks = ceil_div(c.in_group(), Windows::kChannels);
    panels = ceil_div(blocks, winograd ? 2 * kBlocksEach : kBlocksEach);
    const int64_t size = c.out * c.in_group() * c.taps();
    const auto most = static_cast<int64_t>(2 * static_cast<double>(c.work()) / kTask);
    splits = std::min(kTasks, most) / (panels * c.groups);
    splits = std::min({splits, c.batch * c.out_plane() / kLeast, 1 + kMostPartial / size});
    splits = std::max<int64_t>(splits, 1);
    const int64_t threads = num_threads(), tasks = splits * c.groups;
    panels = std::clamp(ceil_div(threads, tasks), panels, std::max(blocks, panels));
  }
  int64_t first_block(int64_t panel) const { return blocks * panel / panels; }
};

/// Computes part `split` of the sums of one panel: to (out_group, features).
void weight_panel(const Conv& c, Factor x, const float* dy, const WeightCut& cut, int64_t group,
                  int64_t panel, int64_t split, float* to) {
  constexpr int64_t kUnit = 64;  // sums are cut at multiples of this
  if (cut.winograd) {
    const int64_t squares = winograd_squares(c);
    return weight_panel_winograd(c, x, dy, cut.first_block(panel), cut.first_block(panel + 1),
                                 squares * split / cut.splits, squares * (split + 1) / cut.splits,
                                 to);
  }
  const int64_t outputs = c.batch * c.out_plane(), units = ceil_div(outputs, kUnit);
  const int64_t first = units * split / cut.splits * kUnit;
  const int64_t last = std::min(outputs, units * (split + 1) / cut.splits * kUnit);
  const int64_t begin = cut.first_block(panel), end = cut.first_block(panel + 1);
  const int64_t per_block = Windows::kChannels * c.taps(), n = c.in_group() * c.taps();
  const int64_t column = begin * per_block, columns = std::min(n, end * per_block) - column;
  const Windows windows(c, Windows::Order::pixels, x, group * c.in_group());
  const ConvFactors factors{
      &windows, first, column, ColumnPlaces::planes(c.out_plane(), c.out * c.out_plane()), {}};
  Product<float> p{c.out_group(), columns, last - first};
  p.a = {dy + group * c.out_group() * c.out_plane(), {c.out_plane(), 1}};
  p.c = to + column;
  p.ldc = n;
  p.conv = &factors;
  multiply_alone(p);
}

}  // namespace

void conv_products(const Conv& c, Factor x, const float* w, const float* bias, float* y) {
  if (winograd_takes(c)) return conv_winograd(c, x, w, bias, y);
  Forward{
      c, x, w, bias, y, c.out_plane(), ColumnPlaces::planes(c.out_plane(), c.out * c.out_plane())}
      .run();
}

void conv_input_products(const Conv& c, const float* dy, const float* w, float* dx) {
  if (winograd_takes(c)) return conv_input_winograd(c, dy, w, dx);
  auto each_phase = [&](auto fn) {
    std::array<int64_t, 3> at;
    for (at[0] = 0; at[0] < phases_of(c, 0); ++at[0])
      for (at[1] = 0; at[1] < phases_of(c, 1); ++at[1])
        for (at[2] = 0; at[2] < phases_of(c, 2); ++at[2]) {
          auto axis = [&](size_t a) {
            return PhaseAxis(at[a], c.size[a], c.kernel[a], c.stride[a], c.padding[a],
                             c.dilation[a]);
          };
          const std::array<PhaseAxis, 3> axes{axis(0), axis(1), axis(2)};
          fn(at, axes, axes[0].taps * axes[1].taps * axes[2].taps);
        }
  };
  bool gaps = false;
  each_phase([&](auto&, auto&, int64_t taps) { gaps |= taps == 0; });
  if (gaps)
    parallel_for(c.batch * c.in * c.plane(), kGrainOfZeros,
                 [=](int64_t begin, int64_t end) { std::fill(dx + begin, dx + end, 0.f); });
  each_phase([&](auto& at, auto& axes, int64_t taps) {
    if (taps > 0) input_phase(c, axes, at, dy, w, dx);
  });
}

void conv_weight_products(const Conv& c, Factor x, const float* dy, float* dw) {
  const WeightCut cut(c, winograd_takes(c));
  const int64_t features = c.in_group() * c.taps(), size = c.out * features;
  Scratch<float> sums(cut.splits * size);
  parallel_blocks(cut.splits * c.groups * cut.panels, c.work(), [&](int64_t task) {
    const int64_t panel = task % cut.panels, group = task / cut.panels % c.groups;
    const int64_t split = task / cut.panels / c.groups;
    weight_panel(c, x, dy, cut, group, panel, split,
                 sums.data() + split * size + group * c.out_group() * features);
  });
  // Adds the parts in order, and puts channels and taps in the order of w.
  Scratch<int64_t> place(features);
  const Windows windows(c, Windows::Order::pixels, x, 0);
  for (int64_t j = 0; j < features; ++j) place.data()[j] = windows.feature_of(j);
  const bool flush = in_bf16() && cut.splits > 1;
  parallel_for(c.out, 1 + kGrainOfWeights / (cut.splits * features),
               [&](int64_t begin, int64_t end) {
                 for (int64_t o = begin; o < end; ++o) {
                   float* sum = sums.data() + o * features;
                   for (int64_t s = 1; s < cut.splits; ++s)
                     simd([=, from = sum + s * size] {
                       for (int64_t j = 0; j < features; ++j) sum[j] += from[j];
                       for (int64_t j = 0; flush && j < features; ++j) sum[j] = flushed(sum[j]);
                     });
                   for (int64_t j = 0; j < features; ++j)
                     dw[o * features + place.data()[j]] = sum[j];
                 }
               });
}

}  // namespace tern::kernels
