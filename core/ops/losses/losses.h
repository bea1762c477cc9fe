// Losses that ops.h lacks. Names, arguments, defaults and reductions are
// torch.nn.functional's. Unless said otherwise, both tensors have the same shape, and every
// floating input gets a gradient, to second order.
#pragma once

#include <vector>

#include "tern/core/ops/ops.h"

namespace tern {

struct HuberOptions {
  double delta = 1;  ///< > 0: where the parabola becomes a straight line
  Reduction reduction = Reduction::mean;
};
/// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2), with d = x - y. Huber 1964.
Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  ///< a factor per element, broadcast
  Reduction reduction = Reduction::mean;
};
/// -(y log p + (1 - y) log(1 - p)) for probabilities p in [0, 1] (else Error). Logarithms are
/// clamped at -100, so that no loss is infinite. Prefer bce_with_logits: it is exact where p rounds
/// to 0 or 1.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target,
                            const BinaryCrossEntropyOptions& options = {});

struct GaussianNllOptions {
  bool full = false;  ///< adds the constant log(2 pi) / 2
  double eps = 1e-6;  ///< > 0: lower bound of variances; one below gets the bound's gradient
  Reduction reduction = Reduction::mean;
};
/// (log var + (x - target)^2 / var) / 2. var has the shape of x; or that shape with a last axis of
/// 1, or without its last axis (one per row); or it is one number. Error if negative.
/// Nix & Weigend 1994.
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                         const GaussianNllOptions& options = {});
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, double var,
                         const GaussianNllOptions& options = {});

struct FocalOptions {
  double alpha = 0.25;  ///< weight of the positives, 1 - alpha of the others; negative: none
  double gamma = 2;     ///< >= 0; 0 means cross entropy
  Reduction reduction = Reduction::none;
};
/// alpha_t (1 - p_t)^gamma cross_entropy(x, target), where p = sigmoid(x), and p_t is p if the
/// target is 1, 1 - p if it is 0. Lin et al. 2017, equation 5; as in torchvision.ops.
Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target,
                          const FocalOptions& options = {});

/// x . y / (max(|x|, eps) max(|y|, eps)) along an axis; the other axes broadcast.
Tensor cosine_similarity(const Tensor& x, const Tensor& y, int64_t axis = 1, double eps = 1e-8);

struct PairwiseDistanceOptions {
  double p = 2;  ///< order of the norm
  double eps = 1e-6;
  bool keepdim = false;
};
/// |x - y + eps|_p along the last axis; the other axes broadcast.
Tensor pairwise_distance(const Tensor& x, const Tensor& y,
                         const PairwiseDistanceOptions& options = {});

struct CosineEmbeddingOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
/// 1 - cos(x, y) where the target is 1, max(0, cos(x, y) - margin) where it is -1. x and y (N, D)
/// with target (N), or (D) with target (). The target has any type and gets no gradient.
Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target,
                             const CosineEmbeddingOptions& options = {});

struct TripletMarginOptions {
  double margin = 1;  ///< > 0
  double p = 2;       ///< order of the distances' norm
  double eps = 1e-6;
  bool swap = false;  ///< measure the negative from the anchor or the positive, whichever is nearer
  Reduction reduction = Reduction::mean;
};
/// max(0, |anchor - positive| - |anchor - negative| + margin). All three are (N, D) or all (D).
/// Balntas et al. 2016.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});

struct CtcOptions {
  int64_t blank = 0;  ///< the class that means "no symbol"
  /// mean: divides each loss by its target's length (at least 1), then averages.
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  ///< a target too long for its input costs 0, without gradient
};
/// Connectionist temporal classification (Graves et al. 2006): -log of the probability that
/// log_probs (T, N, C) or (T, C) spell the targets, summed over all alignments. The forward and
/// backward sums of logarithms are in double precision.
/// targets: i64 classes other than blank. Either (N, S), padded; or all targets one after the other
/// in a vector of sum(target_lengths) elements; or a vector for (T, C). input_lengths (each <= T)
/// and target_lengths have one entry per sample. Errors name the sample. A target too long for its
/// input has an infinite loss and a NaN gradient, unless zero_infinity.
/// The gradient is the true derivative with respect to log_probs. PyTorch adds exp(log_probs), a
/// difference that vanishes behind log_softmax. There is no second derivative (Error).
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, const CtcOptions& options = {});
namespace detail {
std::vector<int64_t> ctc_lengths(const Tensor& lengths);
}
/// The same with lengths as tensors i64 (N), such as those of datasets::Pad.
template <std::same_as<Tensor> Lengths>  // a template, so that {} is a vector
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Lengths& input_lengths,
                const Lengths& target_lengths, const CtcOptions& options = {}) {
  return ctc_loss(log_probs, targets, detail::ctc_lengths(input_lengths),
                  detail::ctc_lengths(target_lengths), options);
}

}  // namespace tern
