// Layer and root-mean-square normalisation of the rows of x (rows, n), which begin `x_stride`
// elements apart, and batch normalisation of the channels of x (batch, channels, size); all else is
// without gaps. Sums are kept in double; those over rows are made of fixed blocks of rows.
// Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/dropout.h"

namespace tern::kernels {

/// y = (x - mean) rstd weight + bias by rows, rstd = 1 / sqrt(var + eps). mean and rstd (rows) are
/// results too; a null mean stands for 0 (root-mean-square normalisation). weight, bias (n).
template <class T>
struct LayerNormForward {
  const T *x, *weight, *bias;
  T *y, *mean, *rstd;
  int64_t rows, n;
  int64_t x_stride;  ///< from a row of x to the next
  double eps;
};
template <class T>
void layer_norm(const LayerNormForward<T>& norm);

/// The same of x = residual + branch, or residual + dropped branch with a mask: x is written to
/// `sum`, which norm.x is then.
template <class T>
void add_layer_norm(const T* branch, const T* residual, const DropMask* mask, T* sum,
                    const LayerNormForward<T>& norm);

/// With xhat = (x - mean) rstd and d = dy weight:
///   dx = rstd (d - mean(d) - xhat mean(d xhat)), dweight = sum dy xhat, dbias = sum dy.
/// dx, without gaps, may be dy; dweight and dbias (n) are both null if they are not wanted. mean:
/// as above (then mean(d) is left out).
template <class T>
struct LayerNormBackward {
  const T *dy, *x, *weight, *mean, *rstd;
  T *dx, *dweight, *dbias;
  int64_t rows, n;
  int64_t x_stride;      ///< from a row of x to the next
  bool adds = false;     ///< dx is added to what is there
  T* dropped = nullptr;  ///< unless null: receives dx as dropped by `mask`; not with `adds`
  DropMask mask = {};
};
template <class T>
void layer_norm_backward(const LayerNormBackward<T>& norm);

/// Mean and biased variance of every channel.
template <class T>
void channel_statistics(const T* x, T* mean, T* var, int64_t batch, int64_t channels, int64_t size);

/// y = (x - mean) rstd weight + bias; all but x and y are (channels).
template <class T>
void batch_norm(const T* x, const T* mean, const T* rstd, const T* weight, const T* bias, T* y,
                int64_t batch, int64_t channels, int64_t size);

/// As layer_norm_backward, by channels; dx may be dy.
template <class T>
void batch_norm_backward(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd,
                         T* dx, T* dweight, T* dbias, int64_t batch, int64_t channels,
                         int64_t size);

}  // namespace tern::kernels
