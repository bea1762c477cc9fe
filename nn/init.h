// Initial values of weights. Each function overwrites a tensor, unrecorded, with numbers from
// `rng`. Definitions and defaults are torch.nn.init's.
//
// Fans: a weight (O, I, k...) has fan_in = I * prod(k) and fan_out = O * prod(k).
#pragma once

#include <cstdint>

#include "tern/core/tensor/tensor.h"

namespace tern {
class Rng;
}

namespace tern::nn::init {

void constant(const Tensor& w, double value);
void uniform(const Tensor& w, double low, double high, Rng& rng);
void normal(const Tensor& w, double mean, double std, Rng& rng);

struct TruncNormalOptions {
  double mean = 0, std = 1;
  double low = -2, high = 2;  ///< bounds of the values themselves, not of the standardised values
};
/// Normal numbers; those outside [low, high] are drawn again. Error if less than one draw in a
/// hundred would be inside.
void trunc_normal(const Tensor& w, Rng& rng, const TruncNormalOptions& options = {});

/// U(±gain * sqrt(6 / (fan_in + fan_out))), Glorot & Bengio 2010.
void xavier_uniform(const Tensor& w, Rng& rng, double gain = 1);
/// N(0, gain^2 * 2 / (fan_in + fan_out)).
void xavier_normal(const Tensor& w, Rng& rng, double gain = 1);

enum class Fan { in, out };
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };

struct KaimingOptions {
  double a = 0;  ///< slope of leaky_relu
  Fan fan = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/// U(±gain * sqrt(3 / fan)), He et al. 2015.
void kaiming_uniform(const Tensor& w, Rng& rng, const KaimingOptions& options = {});
/// N(0, gain^2 / fan).
void kaiming_normal(const Tensor& w, Rng& rng, const KaimingOptions& options = {});

/// The recommended standard deviation for a nonlinearity; `a` is the slope of leaky_relu.
double gain(Nonlinearity nonlinearity, double a = 0.01);

/// A random (semi-)orthogonal matrix times gain, with w viewed as (size(0), rest). The rows are
/// orthonormal if they are not more than the columns, else the columns are. Saxe et al. 2013.
void orthogonal(const Tensor& w, Rng& rng, double gain = 1);

/// A convolution that copies its input: in each group output channel i is input channel i, as long
/// as both exist. All other weights are 0. w (O, I/groups, k...) with one to three k. The input is
/// not shifted if the k are odd.
void dirac(const Tensor& w, int64_t groups = 1);

/// Filters that whiten the patches of images (Page 2018, "How to Train Your ResNet"; Jordan 2024,
/// arXiv:2404.00498). images (B, C, H, W), w (2 n, C, KH, KW) with n = C KH KW. The first n filters
/// are the eigenvectors of E[p p^T] over all patches p of the images, the largest eigenvalue first,
/// each divided by sqrt(eigenvalue + eps): with eps 0 their outputs on these images have the second
/// moments of the identity. The others are their negatives, so that an activation loses nothing.
/// The largest element of each filter (by absolute value) is positive; LAPACK leaves the sign open.
void whitening(const Tensor& w, const Tensor& images, double eps = 5e-4);

struct Fans {
  int64_t in, out;
};
/// Error for fewer than two axes.
Fans fans(const Shape& shape);

}  // namespace tern::nn::init
