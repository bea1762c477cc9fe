// Pointwise loops of tanh/ReLU, LSTM and GRU cells, forward and backward, row by row.
#include "tern/core/kernels/recurrent/rnn.h"

#include <algorithm>

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"

namespace tern::kernels {
namespace {

/// Calls fn(row) for every row, in parallel. A task has several rows if they are short.
template <class F>
void for_each_row(const StepRows& rows, F fn) {
  constexpr int64_t kGrain = 1 << 12;  // units per thread, at least
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(rows.hidden, 1));
  parallel_for(rows.batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) fn(row);
  });
}

template <class T>
void zero(T* x, int64_t n) {
  std::fill_n(x, n, T(0));
}

/// dh += dy, unless dy is null.
template <class T>
void add(T* dh, const T* dy, int64_t n) {
  if (!dy) return;
  simd([=] {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) dh[j] += dy[j];
  });
}

template <class T>
const T* at(const T* base, int64_t offset) {
  return base ? base + offset : nullptr;
}

template <Squash kSquash, class T>
[[gnu::always_inline]] inline T squashed(T x) {
  if constexpr (kSquash == Squash::tanh)
    return vmath::tanh(x);
  else
    return x <= T(0) ? T(0) : x;
}

/// dy f'(x) from y = f(x).
template <Squash kSquash, class T>
[[gnu::always_inline]] inline T squash_gradient(T dy, T y) {
  if constexpr (kSquash == Squash::tanh)
    return dy * (T(1) - y * y);
  else
    return y <= T(0) ? T(0) : dy;
}

template <Squash kSquash, class T>
void rnn_forward_as(const StepRows& rows, const RnnStep<T>& s) {
  for_each_row(rows, [&](int64_t row) {
    const int64_t n = rows.hidden;
    const T* x = s.gates + row * n;
    T* y = s.new_h + row * n;
    if (rows.ended(row)) {
      std::copy_n(s.h + row * n, n, y);
      return;
    }
    simd([=] {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) y[j] = squashed<kSquash>(x[j]);
    });
  });
}

template <Squash kSquash, class T>
void rnn_backward_as(const StepRows& rows, const RnnStepGradient<T>& s) {
  for_each_row(rows, [&](int64_t row) {
    const int64_t n = rows.hidden;
    T* dh = s.dh + row * n;
    T* dx = s.dgates + row * n;
    const T* y = s.new_h + row * n;
    add(dh, at(s.dy, row * n), n);
    if (rows.ended(row)) return zero(dx, n);
    simd([=] {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) {
        dx[j] = squash_gradient<kSquash>(dh[j], y[j]);
        dh[j] = 0;
      }
    });
  });
}

template <class T>
void lstm_row(const T* gates, const T* c, T* activated, T* new_h, T* new_c, int64_t n) {
  simd([=] {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const T i = vmath::sigmoid(gates[j]), f = vmath::sigmoid(gates[n + j]);
      const T g = vmath::tanh(gates[2 * n + j]), o = vmath::sigmoid(gates[3 * n + j]);
      const T next = f * c[j] + i * g;
      activated[j] = i;
      activated[n + j] = f;
      activated[2 * n + j] = g;
      activated[3 * n + j] = o;
      new_c[j] = next;
      new_h[j] = o * vmath::tanh(next);
    }
  });
}

template <class T>
void lstm_gradient_row(const T* activated, const T* c, const T* new_c, T* dh, T* dc, T* dgates,
                       int64_t n) {
  simd([=] {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const T i = activated[j], f = activated[n + j];
      const T g = activated[2 * n + j], o = activated[3 * n + j];
      const T t = vmath::tanh(new_c[j]);
      const T d = dc[j] + dh[j] * o * (T(1) - t * t);
      dgates[j] = d * g * (i * (T(1) - i));
      dgates[n + j] = d * c[j] * (f * (T(1) - f));
      dgates[2 * n + j] = d * i * (T(1) - g * g);
      dgates[3 * n + j] = dh[j] * t * (o * (T(1) - o));
      dc[j] = d * f;
      dh[j] = 0;
    }
  });
}

template <class T>
void gru_row(const T* gates, const T* h, T* activated, T* new_h, int64_t n) {
  simd([=] {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const T r = vmath::sigmoid(gates[j]), z = vmath::sigmoid(gates[n + j]);
      const T q = gates[2 * n + j], m = vmath::tanh(gates[3 * n + j] + r * q);
      activated[j] = r;
      activated[n + j] = z;
      activated[2 * n + j] = q;
      activated[3 * n + j] = m;
      new_h[j] = (T(1) - z) * m + z * h[j];
    }
  });
}

template <class T>
void gru_gradient_row(const T* activated, const T* h, T* dh, T* dgates, int64_t n) {
  simd([=] {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const T r = activated[j], z = activated[n + j];
      const T q = activated[2 * n + j], m = activated[3 * n + j];
      const T d = dh[j], dm = d * (T(1) - z) * (T(1) - m * m);
      dgates[j] = dm * q * (r * (T(1) - r));
      dgates[n + j] = d * (h[j] - m) * (z * (T(1) - z));
      dgates[2 * n + j] = dm * r;
      dgates[3 * n + j] = dm;
      dh[j] = d * z;
    }
  });
}

}  // namespace

template <class T>
void rnn_forward(const StepRows& rows, Squash squash, const RnnStep<T>& s) {
  if (squash == Squash::tanh)
    rnn_forward_as<Squash::tanh>(rows, s);
  else
    rnn_forward_as<Squash::relu>(rows, s);
}

template <class T>
void rnn_backward(const StepRows& rows, Squash squash, const RnnStepGradient<T>& s) {
  if (squash == Squash::tanh)
    rnn_backward_as<Squash::tanh>(rows, s);
  else
    rnn_backward_as<Squash::relu>(rows, s);
}

template <class T>
void lstm_forward(const StepRows& rows, const LstmStep<T>& s) {
  for_each_row(rows, [&](int64_t row) {
    const int64_t n = rows.hidden, to = row * n;
    if (rows.ended(row)) {
      std::copy_n(s.h + to, n, s.new_h + to);
      std::copy_n(s.c + to, n, s.new_c + to);
      return;
    }
    lstm_row(s.gates + 4 * to, s.c + to, s.activated + 4 * to, s.new_h + to, s.new_c + to, n);
  });
}

template <class T>
void lstm_backward(const StepRows& rows, const LstmStepGradient<T>& s) {
  for_each_row(rows, [&](int64_t row) {
    const int64_t n = rows.hidden, to = row * n;
    add(s.dh + to, at(s.dy_h, to), n);
    add(s.dc + to, at(s.dy_c, to), n);
    if (rows.ended(row)) return zero(s.dgates + 4 * to, 4 * n);
    lstm_gradient_row(s.activated + 4 * to, s.c + to, s.new_c + to, s.dh + to, s.dc + to,
                      s.dgates + 4 * to, n);
  });
}

template <class T>
void gru_forward(const StepRows& rows, const GruStep<T>& s) {
  for_each_row(rows, [&](int64_t row) {
    const int64_t n = rows.hidden, to = row * n;
    if (rows.ended(row)) {
      std::copy_n(s.h + to, n, s.new_h + to);
      return;
    }
    gru_row(s.gates + 4 * to, s.h + to, s.activated + 4 * to, s.new_h + to, n);
  });
}

template <class T>
void gru_backward(const StepRows& rows, const GruStepGradient<T>& s) {
  for_each_row(rows, [&](int64_t row) {
    const int64_t n = rows.hidden, to = row * n;
    add(s.dh + to, at(s.dy, to), n);
    if (rows.ended(row)) return zero(s.dgates + 4 * to, 4 * n);
    gru_gradient_row(s.activated + 4 * to, s.h + to, s.dh + to, s.dgates + 4 * to, n);
  });
}

template <class T>
void gru_join(const StepRows& rows, const T* of_x, const T* of_h, T* gates) {
  for_each_row(rows, [&](int64_t row) {
    const int64_t n = rows.hidden;
    const T *x = of_x + 3 * row * n, *h = of_h + 3 * row * n;
    T* to = gates + 4 * row * n;
    simd([=] {
#pragma omp simd
      for (int64_t j = 0; j < 2 * n; ++j) to[j] = x[j] + h[j];
    });
    std::copy_n(h + 2 * n, n, to + 2 * n);
    std::copy_n(x + 2 * n, n, to + 3 * n);
  });
}

template <class T>
void gru_part(const StepRows& rows, const T* dgates, T* dof_x, T* dof_h) {
  for_each_row(rows, [&](int64_t row) {
    const int64_t n = rows.hidden;
    const T* d = dgates + 4 * row * n;
    T *x = dof_x + 3 * row * n, *h = dof_h + 3 * row * n;
    std::copy_n(d, 2 * n, x);
    std::copy_n(d, 3 * n, h);
    std::copy_n(d + 3 * n, n, x + 2 * n);
  });
}

template void rnn_forward(const StepRows&, Squash, const RnnStep<float>&);
template void rnn_forward(const StepRows&, Squash, const RnnStep<double>&);
template void rnn_backward(const StepRows&, Squash, const RnnStepGradient<float>&);
template void rnn_backward(const StepRows&, Squash, const RnnStepGradient<double>&);
template void lstm_forward(const StepRows&, const LstmStep<float>&);
template void lstm_forward(const StepRows&, const LstmStep<double>&);
template void lstm_backward(const StepRows&, const LstmStepGradient<float>&);
template void lstm_backward(const StepRows&, const LstmStepGradient<double>&);
template void gru_forward(const StepRows&, const GruStep<float>&);
template void gru_forward(const StepRows&, const GruStep<double>&);
template void gru_backward(const StepRows&, const GruStepGradient<float>&);
template void gru_backward(const StepRows&, const GruStepGradient<double>&);
template void gru_join(const StepRows&, const float*, const float*, float*);
template void gru_join(const StepRows&, const double*, const double*, double*);
template void gru_part(const StepRows&, const float*, float*, float*);
template void gru_part(const StepRows&, const double*, double*, double*);

}  // namespace tern::kernels
