// The forward and backward recursions of CTC in log space, one sample of the batch per task.
#include "tern/core/kernels/ctc/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double high = std::max(a, b);
  if (high == kNever || std::isnan(a) || std::isnan(b)) return a + b;
  return high + std::log1p(std::exp(std::min(a, b) - high));
}

// One sample of the batch.
template <class T>
struct Sample {
  const CtcShape& shape;
  const T* log_probs;
  const int64_t* target;
  int64_t n, length, states;

  Sample(const CtcShape& s, const T* p, int64_t sample)
      : shape(s),
        log_probs(p + sample * s.classes),
        target(s.targets + s.starts[sample]),
        n(sample),
        length(s.input_lengths[sample]),
        states(2 * s.target_lengths[sample] + 1) {}

  int64_t symbol(int64_t state) const { return state % 2 ? target[state / 2] : shape.blank; }
  double log_prob(int64_t t, int64_t state) const {
    return static_cast<double>(log_probs[t * shape.samples * shape.classes + symbol(state)]);
  }
  // Whether a path may go from state - 2 to state, skipping a blank between different symbols.
  bool skips(int64_t state) const {
    return state % 2 && state >= 3 && symbol(state) != symbol(state - 2);
  }
};

template <class T>
double forward(const Sample<T>& x, double* alpha) {
  const int64_t width = x.shape.states;
  if (x.length == 0) return x.states == 1 ? 0 : kNever;
  std::fill_n(alpha, x.length * width, kNever);
  for (int64_t s = 0; s < std::min<int64_t>(2, x.states); ++s) alpha[s] = x.log_prob(0, s);
  for (int64_t t = 1; t < x.length; ++t) {
    const double* before = alpha + (t - 1) * width;
    for (int64_t s = 0; s < x.states; ++s) {
      double sum = before[s];
      if (s >= 1) sum = log_add(sum, before[s - 1]);
      if (x.skips(s)) sum = log_add(sum, before[s - 2]);
      alpha[t * width + s] = sum + x.log_prob(t, s);
    }
  }
  const double* last = alpha + (x.length - 1) * width;
  return x.states == 1 ? last[0] : log_add(last[x.states - 1], last[x.states - 2]);
}

// d loss / d log_prob(t, c) = -sum over the states s of c of exp(alpha + beta - log_prob + loss).
template <class T>
void backward(const Sample<T>& x, const double* alpha, double loss, double scale, double* beta,
              T* dx) {
  const int64_t width = x.shape.states, step = x.shape.samples * x.shape.classes;
  std::fill_n(beta, 2 * width, kNever);
  for (int64_t t = x.length - 1; t >= 0; --t) {
    double* now = beta + (t % 2) * width;
    const double* next = beta + ((t + 1) % 2) * width;
    for (int64_t s = 0; s < x.states; ++s) {
      double sum = next[s];
      if (s + 1 < x.states) sum = log_add(sum, next[s + 1]);
      if (s + 2 < x.states && x.skips(s + 2)) sum = log_add(sum, next[s + 2]);
      if (t == x.length - 1) sum = s + 2 >= x.states ? 0 : kNever;
      now[s] = sum + x.log_prob(t, s);
      T& d = dx[t * step + x.symbol(s)];
      const double share = alpha[t * width + s] + sum + loss;
      d = static_cast<T>(static_cast<double>(d) - scale * std::exp(share));
    }
  }
}

int64_t work(const CtcShape& s) { return 60 * s.times * s.samples * s.states; }

}  // namespace

template <class T>
void ctc_forward(const CtcShape& shape, const T* log_probs, double* log_p, double* alpha) {
  parallel_blocks(shape.samples, work(shape), [&](int64_t n) {
    log_p[n] = forward(Sample<T>(shape, log_probs, n), alpha + n * shape.times * shape.states);
  });
}

template <class T>
void ctc_backward(const CtcShape& shape, const T* log_probs, const double* alpha,
                  const double* log_p, const T* dlosses, bool zero_infinity, T* dlog_probs) {
  const int64_t step = shape.samples * shape.classes;
  Scratch<double> betas(2 * shape.states * shape.samples);
  parallel_blocks(shape.samples, work(shape) + step * shape.times, [&](int64_t n) {
    const Sample<T> x(shape, log_probs, n);
    T* dx = dlog_probs + n * shape.classes;
    const bool never = log_p[n] == kNever;
    for (int64_t t = 0; t < shape.times; ++t) {
      const bool nan = never && !zero_infinity && t < x.length;
      std::fill_n(dx + t * step, shape.classes,
                  nan ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(0));
    }
    if (!never)
      backward(x, alpha + n * shape.times * shape.states, -log_p[n],
               static_cast<double>(dlosses[n]), betas.data() + 2 * shape.states * n, dx);
  });
}

template void ctc_forward(const CtcShape&, const float*, double*, double*);
template void ctc_forward(const CtcShape&, const double*, double*, double*);
template void ctc_backward(const CtcShape&, const float*, const double*, const double*,
                           const float*, bool, float*);
template void ctc_backward(const CtcShape&, const double*, const double*, const double*,
                           const double*, bool, double*);

}  // namespace tern::kernels
