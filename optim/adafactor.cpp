// The factored second moment and the update of Adafactor. Sums of squares are in double precision.
#include "tern/optim/adafactor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/core/base/error.h"

namespace tern::optim {
namespace {

template <class T>
double mean_square(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum / static_cast<double>(n);
}

// v + w (square - v). An infinite v stays infinite, unless w = 1, which keeps nothing of it.
template <class T>
T moved(T v, T square, double w) {
  if (w == 1) return square;
  return std::isinf(v) ? v : v + T(w) * (square - v);
}

// row (R) += w (mean of g^2 over each row - row), col (C) likewise over the columns; g (R, C).
template <class T>
void move_factors(const T* g, int64_t rows, int64_t cols, double w, T* row, T* col) {
  for (int64_t c = 0; c < cols; ++c) col[c] = w == 1 ? T(0) : col[c] * T(1 - w);
  const T share = T(w / static_cast<double>(rows));
  for (int64_t r = 0; r < rows; ++r, g += cols) {
    row[r] = moved(row[r], static_cast<T>(mean_square(g, cols)), w);
    for (int64_t c = 0; c < cols; ++c) col[c] += share * g[c] * g[c];
  }
}

// row col / mean; infinity, which makes a step of 0, where a square was too large for the type.
template <class T>
T estimate(T row, T col, T mean) {
  using Limits = std::numeric_limits<T>;
  if (!(mean <= Limits::max() && col <= Limits::max())) return Limits::infinity();
  const T product = row * col;
  const bool holds = product >= Limits::min() && product <= Limits::max();
  return holds ? product / mean : row / mean * col;
}

// fn(i, 1 / sqrt(estimate of the second moment)) for every element of a (B, R, C) parameter:
// row_r col_c / mean(row), or for a vector the moment itself.
template <class T, class Fn>
void for_each_scale(const Piece<T>& piece, T eps, Fn fn) {
  const Shape& shape = *piece.shape;
  const T least = std::max(eps * eps, std::numeric_limits<T>::min());
  if (shape.size() < 2) {
    for (int64_t i = 0; i < piece.count; ++i)
      fn(i, 1 / std::sqrt(std::max(piece.state[0][i], least)));
    return;
  }
  const int64_t cols = shape.back(), rows = shape[shape.size() - 2];
  const T *row = piece.state[0], *col = piece.state[1];
  for (int64_t at = 0; at < piece.count; at += rows * cols, row += rows, col += cols) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += static_cast<double>(row[r]);
    const T mean = std::max(static_cast<T>(sum / static_cast<double>(rows)), eps);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        fn(at + r * cols + c, 1 / std::sqrt(std::max(estimate(row[r], col[c], mean), least)));
  }
}

}  // namespace

std::vector<StateTensor> AdafactorOptions::states(const Shape& parameter) const {
  if (parameter.size() < 2) return {{"variance", parameter}};
  Shape row = parameter, col = parameter;
  row[row.size() - 1] = 1;
  col[col.size() - 2] = 1;
  return {{"row_var", row}, {"col_var", col}};
}

void AdafactorOptions::validate() const {
  check(beta2_decay <= 0, "Adafactor: beta2_decay must not be positive, it is {}", beta2_decay);
  check(eps1.value_or(1) > 0, "Adafactor: eps1 must be positive, it is {}", eps1.value_or(1));
  check(eps2 >= 0, "Adafactor: eps2 must not be negative, it is {}", eps2);
  check(d >= 1, "Adafactor: the bound d must be at least 1, it is {}", d);
}

template <class T>
void AdafactorOptions::update(const Piece<T>& piece) const {
  const auto t = static_cast<double>(piece.step);
  const double w = std::pow(t, beta2_decay);
  const double size = std::min(piece.lr, 1 / std::sqrt(t)) *
                      std::max(eps2, std::sqrt(mean_square(piece.parameter, piece.count)));
  const T* g = piece.gradient;
  const Shape& shape = *piece.shape;
  if (shape.size() < 2) {
    T* v = piece.state[0];
    for (int64_t i = 0; i < piece.count; ++i) v[i] = moved(v[i], g[i] * g[i], w);
  } else {
    const int64_t cols = shape.back(), rows = shape[shape.size() - 2];
    T *row = piece.state[0], *col = piece.state[1];
    for (int64_t at = 0; at < piece.count; at += rows * cols, row += rows, col += cols)
      move_factors(g + at, rows, cols, w, row, col);
  }
  const T eps = T(eps1.value_or(static_cast<double>(std::numeric_limits<T>::epsilon())));
  double squares = 0;
  for_each_scale(piece, eps, [&](int64_t i, T scale) {
    const auto u = static_cast<double>(g[i] * scale);
    squares += u * u;
  });
  const double rms = std::sqrt(squares / static_cast<double>(piece.count));
  const T rate = T(size / std::max(1.0, rms / d)), keep = T(1 - piece.lr * piece.weight_decay);
  T* p = piece.parameter;
  for_each_scale(piece, eps, [=](int64_t i, T scale) { p[i] = keep * p[i] - rate * g[i] * scale; });
}

template void AdafactorOptions::update(const Piece<float>&) const;
template void AdafactorOptions::update(const Piece<double>&) const;
template class OptimizerOf<AdafactorOptions>;

}  // namespace tern::optim
