// Layer and root-mean-square normalisation of the rows of x (rows, n), which are `x_stride`
// elements apart, and batch normalisation of the channels of x (batch, channels, size). All other
// arrays are contiguous. Sums are in double. Sums over rows use fixed blocks of rows.
// Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/random/dropout.h"

namespace tern::kernels {

/// y = (x - mean) rstd weight + bias for each row, rstd = 1 / sqrt(var + eps). mean and rstd (rows)
/// are results too. A null mean means 0 (root-mean-square normalisation). weight, bias (n).
template <class T>
struct LayerNormForward {
  const T *x, *weight, *bias;
  T *y, *mean, *rstd;
  int64_t rows, n;
  int64_t x_stride;  ///< distance between rows of x
  double eps;
};
template <class T>
void layer_norm(const LayerNormForward<T>& norm);

/// The same for x = residual + branch, or with a mask for x = residual + dropped branch. Writes x
/// to `sum`. REQUIRES: norm.x is `sum`.
template <class T>
void add_layer_norm(const T* branch, const T* residual, const DropMask* mask, T* sum,
                    const LayerNormForward<T>& norm);

/// With xhat = (x - mean) rstd and d = dy weight:
///   dx = rstd (d - mean(d) - xhat mean(d xhat)), dweight = sum dy xhat, dbias = sum dy.
/// dx is contiguous and may be dy. dweight and dbias (n) are both null if not wanted. A null mean
/// means 0, and mean(d) is left out.
template <class T>
struct LayerNormBackward {
  const T *dy, *x, *weight, *mean, *rstd;
  T *dx, *dweight, *dbias;
  int64_t rows, n;
  int64_t x_stride;      ///< distance between rows of x
  bool adds = false;     ///< adds to the old dx
  T* dropped = nullptr;  ///< receives dx dropped by `mask`, unless null; not allowed with `adds`
  DropMask mask = {};
};
template <class T>
void layer_norm_backward(const LayerNormBackward<T>& norm);

/// y = (x - mean) rstd weight + bias for every channel, with its mean and biased variance over the
/// batch and rstd = 1 / sqrt(var + eps), which are results too. All arrays except x and y have
/// shape (channels).
template <class T>
void batch_norm(const T* x, const T* weight, const T* bias, double eps, T* y, T* mean, T* var,
                T* rstd, int64_t batch, int64_t channels, int64_t size);

/// As layer_norm_backward, but per channel; dx may be dy.
template <class T>
void batch_norm_backward(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd,
                         T* dx, T* dweight, T* dbias, int64_t batch, int64_t channels,
                         int64_t size);

}  // namespace tern::kernels
