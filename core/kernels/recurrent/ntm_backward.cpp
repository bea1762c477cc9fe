// The gradient of a Neural Turing Machine's step: each stage of addressing in reverse order, from
// values that it recomputes.
#include "tern/core/kernels/recurrent/ntm_row.h"

namespace tern::kernels {
namespace ntm {
namespace {

// In all functions below, d is a gradient that the function overwrites.

/// r = sum_n w(n) M(n):  dw += M dr,  dM += dr w.
template <class T>
void read_gradient(const NtmSize& s, const T* dr, const T* w, const T* memory, T* dw, T* dmemory) {
  simd([=, n = s.slots, m = s.width] {
    for (int64_t j = 0; j < m; ++j) {
      const T g = dr[j];
      const T* x = memory + j * n;
      T* dx = dmemory + j * n;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        dw[i] += g * x[i];
        dx[i] += g * w[i];
      }
    }
  });
}

/// For write_memory, with M = `from`:
///   dw += (a - M e) d,  de = -M w d,  da = w d,  dM = (1 - w e) d.
template <class T>
void write_gradient(const NtmSize& s, const T* p, const T* w, const T* from, T* d, T* dw, T* dp) {
  simd([=, n = s.slots, m = s.width] {
    for (int64_t j = 0; j < m; ++j) {
      const T erase = vmath::sigmoid(p[j]), add = vmath::tanh(p[m + j]);
      const T* x = from + j * n;
      T* dx = d + j * n;
      LaneSum<T> derase, dadd;
      each_lane(n, [=, &derase, &dadd](int64_t i, int l) {
        const T g = dx[i], gw = g * w[i];
        dadd.lane[l] += gw;
        derase.lane[l] -= gw * x[i];
        dw[i] += g * (add - x[i] * erase);
        dx[i] = g - gw * erase;
      });
      dp[j] = derase.total() * erase * (T(1) - erase);
      dp[m + j] = dadd.total() * (T(1) - add * add);
    }
  });
}

/// d: the gradient of the weights; becomes the gradient of sharpening's input. Returns the gradient
/// of gamma.
template <class T>
T sharpen_gradient(T gamma, const T* w, const HeadTrace<T>& t, T* d, int64_t n) {
  return simd([=, log = t.log, shifted = t.shifted] {
    const T mean = dot<T>(d, w, n);
    return lane_sum<T>(n, [=](int64_t i) {
      const T g = w[i] * (d[i] - mean);
      d[i] = gamma * (g / (shifted[i] + T(kSharpenEps)));
      return g * log[i];
    });
  });
}

/// d: the gradient of shift's output; becomes the gradient of its input. `padded` is scratch
/// (S + N + S).
template <class T>
void shift_gradient(const NtmSize& s, const HeadTrace<T>& t, T* d, T* padded, T* dkernel) {
  const int64_t n = s.slots, shift = s.shift, count = s.kernel();
  std::copy_n(d, n, padded + shift);
  wrap(padded, n, shift);
  simd([=, kernel = t.kernel, last = t.gated + 2 * shift] {
    T mean = 0;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) d[i] = 0;
    for (int64_t j = 0; j < count; ++j) {
      dkernel[j] = dot<T>(padded + shift, last - j, n);
      mean += kernel[j] * dkernel[j];
      add_scaled<T>(kernel[j], padded + j, d, n);
    }
    for (int64_t j = 0; j < count; ++j) dkernel[j] = kernel[j] * (dkernel[j] - mean);
  });
}

/// d: the gradient of interpolation's output; becomes the gradient of the old weights. Writes the
/// gradient of the content weighting to `to_content`. Returns the gradient of the gate.
template <class T>
T gate_gradient(T gate, const T* content, const T* old, T* d, T* to_content, int64_t n) {
  return simd([=] {
    return lane_sum<T>(n, [=](int64_t i) {
      const T dgate = d[i] * (content[i] - old[i]);
      to_content[i] = gate * d[i];
      d[i] *= T(1) - gate;
      return dgate;
    });
  });
}

/// d: the gradient of the content weighting, overwritten. dp receives the gradients of key and
/// beta. dM += the part from dot products. by_norm (N) += the part from norms, which the caller
/// applies as dM -= by_norm M.
template <class T>
void content_gradient(const NtmSize& s, const T* p, const T* memory, const T* norms,
                      const HeadTrace<T>& t, T* d, T* dp, T* dmemory, T* by_norm) {
  simd([=, n = s.slots, m = s.width, content = t.content, cosine = t.cosine] {
    const T beta = vmath::softplus(p[m]), length = std::sqrt(dot<T>(p, p, m));
    const T mean = dot<T>(d, content, n);
    LaneSum<T> dbeta, dlength;
    each_lane(n, [=, &dbeta, &dlength](int64_t i, int l) {
      const T g = content[i] * (d[i] - mean);
      const T to_dot = beta * g / (norms[i] * length + T(kCosineEps));
      dbeta.lane[l] += g * cosine[i];
      dlength.lane[l] += to_dot * cosine[i] * norms[i];
      by_norm[i] += norms[i] > T(0) ? to_dot * cosine[i] * length / norms[i] : T(0);
      d[i] = to_dot;
    });
    const T by_length = length > T(0) ? dlength.total() / length : T(0);
    multiply_rows<T>(memory, d, dp, m, n);
    for (int64_t j = 0; j < m; ++j) {
      dp[j] -= by_length * p[j];
      add_scaled<T>(p[j], d, dmemory + j * n, n);
    }
    dp[m] = dbeta.total() * vmath::sigmoid(p[m]);
  });
}

/// The gradient of a head's addressing. d: the gradient of the new weights; becomes the gradient of
/// the old weights.
template <class T>
void head_gradient(const NtmSize& s, const T* p, const T* w, const T* old, const T* memory,
                   const T* norms, const HeadTrace<T>& t, T* d, T* dp, T* dmemory, T* by_norm,
                   T* padded) {
  const int64_t n = s.slots, gamma = s.width + 2 + s.kernel();
  const HeadNumbers<T> h = numbers_of(s, p);
  std::fill_n(dp, s.address(), T(0));
  T* rest = dp + s.width;  // beta | gate | shift | gamma
  if (s.sharpening) dp[gamma] = sharpen_gradient<T>(h.gamma, w, t, d, n) * vmath::sigmoid(p[gamma]);
  if (s.shifting) shift_gradient<T>(s, t, d, padded, rest + 2);
  if (!s.content) return;
  const T gate = s.interpolation ? h.gate : T(1);
  const T dgate = gate_gradient<T>(gate, t.content, old, d, padded, n);
  if (s.interpolation) rest[1] = dgate * gate * (T(1) - gate);
  content_gradient<T>(s, p, memory, norms, t, padded, dp, dmemory, by_norm);
}

/// d: the gradient of the next state; becomes the gradient of the old state.
template <class T>
void backward_row(const NtmSize& s, const T* heads, const T* state, const T* next, T* d, T* dheads,
                  T* scratch) {
  const int64_t n = s.slots, m = s.width;
  const T *memory = state + s.memory_at(), *weights = next + s.weights_at();
  T *dmemory = d + s.memory_at(), *dw = d + s.weights_at();
  T *norms = scratch, *by_norm = norms + n, *padded = by_norm + n;
  T *trace = padded + n + 2 * s.shift, *between = trace + trace_size<T>(s);
  for (int64_t r = 0; r < s.reads; ++r)
    read_gradient<T>(s, d + r * m, weights + (s.writes + r) * n, next + s.memory_at(),
                     dw + (s.writes + r) * n, dmemory);
  std::fill_n(d, s.weights_at(), T(0));
  auto before = [=](int64_t h) { return h == 0 ? memory : between + (h - 1) * n * m; };
  auto written = [=](int64_t h) { return heads + s.head(h) + s.address(); };
  for (int64_t h = 0; h + 1 < s.writes; ++h)
    write_memory<T>(s, written(h), weights + h * n, before(h), between + h * n * m);
  for (int64_t h = s.writes - 1; h >= 0; --h)
    write_gradient<T>(s, written(h), weights + h * n, before(h), dmemory, dw + h * n,
                      dheads + s.head(h) + s.address());
  column_norms<T>(memory, norms, m, n);
  std::fill_n(by_norm, n, T(0));
  const HeadTrace<T> t = trace_at(s, trace);
  for (int64_t h = 0; h < s.heads(); ++h) {
    const T *p = heads + s.head(h), *old = state + s.weights_at() + h * n;
    trace_head<T>(s, p, memory, norms, old, t);
    head_gradient<T>(s, p, weights + h * n, old, memory, norms, t, dw + h * n, dheads + s.head(h),
                     dmemory, by_norm, padded);
  }
  simd([=] {
    for (int64_t j = 0; j < m; ++j) {
      const T* x = memory + j * n;
      T* dx = dmemory + j * n;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dx[i] -= by_norm[i] * x[i];
    }
  });
}

}  // namespace
}  // namespace ntm

template <class T>
void ntm_backward(const NtmSize& s, const T* heads, const T* state, const T* next, const T* d,
                  T* dheads, T* dstate) {
  const int64_t copies = std::max<int64_t>(s.writes - 1, 0) * s.slots * s.width;
  const int64_t lines = 3 * s.slots + 2 * s.shift;
  ntm::for_each_row<T>(s, lines + ntm::trace_size<T>(s) + copies, [&](int64_t row, T* scratch) {
    const int64_t at = row * s.state(), parameters = row * s.parameters();
    if (dstate != d) std::copy_n(d + at, s.state(), dstate + at);
    ntm::backward_row(s, heads + parameters, state + at, next + at, dstate + at,
                      dheads + parameters, scratch);
  });
}

template void ntm_backward(const NtmSize&, const float*, const float*, const float*, const float*,
                           float*, float*);
template void ntm_backward(const NtmSize&, const double*, const double*, const double*,
                           const double*, double*, double*);

}  // namespace tern::kernels
