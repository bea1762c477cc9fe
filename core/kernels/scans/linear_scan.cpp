// Linear recurrences and their gradients. Lines (an index of outer and one of inner) are
// independent. They are computed side by side in strips, with one vector loop per step. With few
// lines, time is cut into blocks too, in three passes (Blelloch 1990, "Prefix Sums and Their
// Applications", 1.4, with blocks in place of single steps):
//   1. Each block runs from a state of 0 and gives its end s and the product p of its factors.
//   2. The starts of all blocks follow in order: next start = p start + s.
//   3. Each block runs again from its true start.
// All cuts depend only on the shape.
#include "tern/core/kernels/scans/linear_scan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kDirect = 16;    // from this many neighbouring lines on, lines are read in place
constexpr int64_t kColumns = 64;   // lines per strip that is read in place
constexpr int64_t kGathered = 16;  // lines per strip that is gathered into tiles
constexpr int64_t kTile = 64;      // steps per tile
constexpr int64_t kBlock = 512;    // steps per block
constexpr int64_t kStrips = 16;    // with this many strips of lines, time is not cut

// Chain block * lines + line is one block of one line. A strip is a row of chains. Position 0 of a
// line is the step at which its recurrence begins.
struct Cuts {
  int64_t n, inner, lines, blocks, strips;
  bool backwards;  // position 0 is the last step
  bool direct;

  Cuts(const ScanShape& s, bool from_the_end)
      : n(s.n),
        inner(s.inner),
        lines(s.outer * s.inner),
        backwards(from_the_end),
        direct(s.inner >= kDirect) {
    const int64_t of_lines = direct ? s.outer * in_one() : ceil_div(lines, kGathered);
    blocks = of_lines < kStrips && n >= 2 * kBlock ? ceil_div(n, kBlock) : 1;
    strips = direct ? blocks * of_lines : ceil_div(blocks * lines, kGathered);
  }
  int64_t in_one() const {
    return ceil_div(inner, kColumns);
  }  // strips of one outer index, if direct
  int64_t chains() const { return blocks * lines; }
  int64_t first_chain(int64_t strip) const {
    return direct ? strip / in_one() * inner + strip % in_one() * kColumns : strip * kGathered;
  }
  int64_t columns(int64_t strip) const {
    return direct ? std::min(kColumns, inner - strip % in_one() * kColumns)
                  : std::min(kGathered, chains() - strip * kGathered);
  }
  int64_t begin(int64_t chain) const { return chain / lines * kBlock; }
  int64_t end(int64_t chain) const {
    return chain / lines + 1 == blocks ? n : begin(chain) + kBlock;
  }
  int64_t step() const { return backwards ? -inner : inner; }
  int64_t at(int64_t chain, int64_t position) const {
    const int64_t line = chain % lines, t = backwards ? n - 1 - position : position;
    return (line / inner * n + t) * inner + line % inner;
  }
  // The work for parallel_blocks, if this number of operands is read or written once.
  int64_t work(int64_t operands) const { return 10 * operands * lines * n; }
};

// The operands of a pass, factors first. If `start` (lines) is given, the last input is read one
// step ahead, and at the last position `start` takes its place.
template <class T, size_t kIn, size_t kOut>
struct Operands {
  std::array<const T*, kIn> in;
  std::array<T*, kOut> out;
  const T* start = nullptr;
};

// Loads steps [first, first + kTile) of a chain's block into a column of the operands' tiles. Steps
// beyond the end do not change the state: their factors are 1, everything else is 0.
template <class T, size_t kIn, size_t kOut>
void gather(const Cuts& cuts, const Operands<T, kIn, kOut>& x, int64_t chain, int64_t first,
            T* tiles) {
  const int64_t begin = cuts.begin(chain) + first, step = cuts.step();
  const int64_t steps = std::clamp<int64_t>(cuts.end(chain) - begin, 0, kTile);
  for (size_t k = 0; k < kIn; ++k) {
    T* tile = tiles + k * kTile * kGathered;
    const bool ahead = x.start && k + 1 == kIn;
    const int64_t there = ahead ? std::min(steps, std::max<int64_t>(cuts.n - 1 - begin, 0)) : steps;
    const T* p = x.in[k] + (there > 0 ? cuts.at(chain, begin) + (ahead ? step : 0) : 0);
    for (int64_t i = 0; i < there; ++i) tile[i * kGathered] = p[i * step];
    for (int64_t i = there; i < kTile; ++i) tile[i * kGathered] = T(k == 0);
    if (there < steps) tile[there * kGathered] = x.start[chain % cuts.lines];
  }
}

template <class T>
void scatter(const Cuts& cuts, const T* tile, int64_t chain, int64_t first, T* out) {
  const int64_t begin = cuts.begin(chain) + first, step = cuts.step();
  const int64_t steps = std::clamp<int64_t>(cuts.end(chain) - begin, 0, kTile);
  if (steps == 0) return;
  T* p = out + cuts.at(chain, begin);
  for (int64_t i = 0; i < steps; ++i) p[i * step] = tile[i * kGathered];
}

// Calls body(in, out, steps, stride) for the steps of a strip in order. Column j of step i of an
// operand is at in[k][i * stride + j].
template <class T, size_t kIn, size_t kOut, class Body>
void for_each_run(const Cuts& cuts, int64_t strip, Operands<T, kIn, kOut> x, Body body) {
  const int64_t chain = cuts.first_chain(strip), columns = cuts.columns(strip);
  if (cuts.direct) {
    const int64_t at = cuts.at(chain, cuts.begin(chain)), step = cuts.step();
    const int64_t steps = cuts.end(chain) - cuts.begin(chain);
    const int64_t last = x.start && cuts.end(chain) == cuts.n ? 1 : 0;  // reads start
    for (const T*& p : x.in) p += at;
    for (T*& p : x.out) p += at;
    auto in = x.in;
    if (x.start && steps > last) in.back() += step;
    simd([=, out = x.out] { body(in, out, steps - last, step); });
    if (last == 0) return;
    for (const T*& p : x.in) p += (steps - 1) * step;
    for (T*& p : x.out) p += (steps - 1) * step;
    x.in.back() = x.start + chain % cuts.lines;
    simd([=, in = x.in, out = x.out] { body(in, out, 1, 0); });
    return;
  }
  alignas(64) T tiles[(kIn + kOut) * kTile * kGathered];
  std::array<const T*, kIn> from;
  std::array<T*, kOut> to;
  for (size_t k = 0; k < kIn; ++k) from[k] = tiles + k * kTile * kGathered;
  for (size_t k = 0; k < kOut; ++k) to[k] = tiles + (kIn + k) * kTile * kGathered;
  const int64_t longest = cuts.blocks == 1 ? cuts.n : kBlock;
  for (int64_t first = 0; first < longest; first += kTile) {
    for (int64_t j = 0; j < columns; ++j) gather(cuts, x, chain + j, first, tiles + j);
    simd([=] { body(from, to, kTile, kGathered); });
    for (size_t k = 0; k < kOut; ++k)
      for (int64_t j = 0; j < columns; ++j) scatter(cuts, to[k] + j, chain + j, first, x.out[k]);
  }
}

// One step forward: a is the factor, x = b.
struct Forward {
  template <class T>
  [[gnu::always_inline]] T operator()(T a, T x, T state) const {
    return a * state + x;
  }
};

// One step of the gradient: x = dh. The result is the state for the previous step.
struct Backward {
  template <class T>
  [[gnu::always_inline]] T operator()(T a, T x, T state) const {
    return a * (x + state);
  }
};

// The results of pass 1 for every chain. stable: 1 if no |a| is above 1, else 0.
template <class T>
struct Summaries {
  T *end, *product, *stable;
};

template <class T, class Next>
void summarise(const Cuts& cuts, int64_t strip, const T* a, const T* x, Next next,
               const Summaries<T>& to) {
  const int64_t chain = cuts.first_chain(strip), columns = cuts.columns(strip);
  T *ends = to.end + chain, *products = to.product + chain, *stables = to.stable + chain;
  std::fill_n(ends, columns, T(0));
  std::fill_n(products, columns, T(1));
  std::fill_n(stables, columns, T(1));
  auto body = [=](const std::array<const T*, 2>& in, const std::array<T*, 0>&, int64_t steps,
                  int64_t stride) __attribute__((always_inline)) {
    T *end = ends, *product = products, *stable = stables;
    for (int64_t i = 0; i < steps; ++i) {
      const T *factor = in[0] + i * stride, *term = in[1] + i * stride;
#pragma omp simd
      for (int64_t j = 0; j < columns; ++j) {
        end[j] = next(factor[j], term[j], end[j]);
        product[j] *= factor[j];
        stable[j] = std::abs(factor[j]) <= T(1) ? stable[j] : T(0);
      }
    }
  };
  for_each_run<T, 2, 0>(cuts, strip, {{a, x}, {}}, body);
}

// The state after a chain. If a factor is above 1 (or NaN), the product and the sum from a state of
// 0 may overflow or cancel although single steps do not. Then the chain is computed step by step.
template <class T, class Next>
T behind(const Cuts& cuts, int64_t chain, const T* a, const T* x, Next next,
         const Summaries<T>& known, T state) {
  if (known.stable[chain] != 0 && std::isfinite(state) && std::isfinite(known.end[chain]))
    return known.product[chain] * state + known.end[chain];
  for (int64_t i = cuts.begin(chain); i < cuts.end(chain); ++i) {
    const int64_t at = cuts.at(chain, i);
    state = next(a[at], x[at], state);
  }
  return state;
}

// Computes the state at the start of every chain.
template <class T, class Next>
void find_starts(const Cuts& cuts, const T* a, const T* x, Next next, const T* initial, T* starts) {
  const int64_t chains = cuts.blocks > 1 ? cuts.chains() : 0;
  Scratch<T> numbers(3 * chains);
  const Summaries<T> known{numbers.data(), numbers.data() + chains, numbers.data() + 2 * chains};
  if (chains > 0)
    parallel_blocks(cuts.strips, cuts.work(2),
                    [&](int64_t strip) { summarise(cuts, strip, a, x, next, known); });
  parallel_for(cuts.lines, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      starts[line] = initial ? initial[line] : T(0);
      for (int64_t chain = line; chain + cuts.lines < cuts.chains(); chain += cuts.lines)
        starts[chain + cuts.lines] = behind(cuts, chain, a, x, next, known, starts[chain]);
    }
  });
}

}  // namespace

template <class T>
void linear_scan(const ScanShape& shape, const T* a, const T* b, const T* initial, T* h) {
  const Cuts cuts(shape, shape.reverse);
  Scratch<T> states(cuts.chains());
  find_starts(cuts, a, b, Forward(), initial, states.data());
  parallel_blocks(cuts.strips, cuts.work(3), [&](int64_t strip) {
    const int64_t columns = cuts.columns(strip);
    T* state = states.data() + cuts.first_chain(strip);
    auto body = [=](const std::array<const T*, 2>& in, const std::array<T*, 1>& out, int64_t steps,
                    int64_t stride) __attribute__((always_inline)) {
      for (int64_t i = 0; i < steps; ++i) {
        const T *factor = in[0] + i * stride, *term = in[1] + i * stride;
        T* to = out[0] + i * stride;
#pragma omp simd
        for (int64_t j = 0; j < columns; ++j)
          to[j] = state[j] = Forward()(factor[j], term[j], state[j]);
      }
    };
    for_each_run<T, 2, 1>(cuts, strip, {{a, b}, {h}}, body);
  });
}

template <class T>
void linear_scan_gradients(const ScanShape& shape, const ScanGradients<T>& x) {
  const Cuts cuts(shape, !shape.reverse);
  Scratch<T> states(cuts.chains()), zeros(x.initial ? 0 : cuts.lines);
  if (!x.initial)
    parallel_for(cuts.lines, 1 << 14, [p = zeros.data()](int64_t begin, int64_t end) {
      std::fill(p + begin, p + end, T(0));
    });
  const T* start = x.initial ? x.initial : zeros.data();
  find_starts<T>(cuts, x.a, x.dh, Backward(), nullptr, states.data());
  parallel_blocks(cuts.strips, cuts.work(5), [&](int64_t strip) {
    const int64_t columns = cuts.columns(strip);
    T* state = states.data() + cuts.first_chain(strip);
    auto body = [=](const std::array<const T*, 3>& in, const std::array<T*, 2>& out, int64_t steps,
                    int64_t stride) __attribute__((always_inline)) {
      for (int64_t i = 0; i < steps; ++i) {
        const T *factor = in[0] + i * stride, *dh = in[1] + i * stride, *h = in[2] + i * stride;
        T *da = out[0] + i * stride, *db = out[1] + i * stride;
#pragma omp simd
        for (int64_t j = 0; j < columns; ++j) {
          const T d = dh[j] + state[j];
          state[j] = factor[j] * d;
          da[j] = d * h[j];
          db[j] = d;
        }
      }
    };
    for_each_run<T, 3, 2>(cuts, strip, {{x.a, x.dh, x.h}, {x.da, x.db}, start}, body);
  });
  if (x.dinitial)
    parallel_for(cuts.lines, 1 << 14, [&](int64_t begin, int64_t end) {
      const T* last = states.data() + cuts.chains() - cuts.lines;
      std::copy(last + begin, last + end, x.dinitial + begin);
    });
}

template void linear_scan(const ScanShape&, const float*, const float*, const float*, float*);
template void linear_scan(const ScanShape&, const double*, const double*, const double*, double*);
template void linear_scan_gradients(const ScanShape&, const ScanGradients<float>&);
template void linear_scan_gradients(const ScanShape&, const ScanGradients<double>&);

}  // namespace tern::kernels
