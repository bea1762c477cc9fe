// Losses beside those of ops.h. Names, arguments, defaults and reductions are
// torch.nn.functional's; where nothing else is said both tensors have the same shape, and a
// gradient flows to every floating input, second derivatives too.
#pragma once

#include <vector>

#include "tern/core/ops/ops.h"

namespace tern {

struct HuberOptions {
  double delta = 1;  ///< > 0: where the square ends and the straight line begins
  Reduction reduction = Reduction::mean;
};
/// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2); d = x - y. Huber 1964.
Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  ///< a factor an element, broadcast
  Reduction reduction = Reduction::mean;
};
/// -(y log p + (1 - y) log(1 - p)) of probabilities p in [0, 1] (an Error otherwise); logarithms
/// are at least -100, so that no loss is infinite. bce_with_logits is exact where p rounds to 0
/// or 1, and is to be preferred.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target,
                            const BinaryCrossEntropyOptions& options = {});

struct GaussianNllOptions {
  bool full = false;  ///< adds the constant log(2 pi) / 2
  double eps = 1e-6;  ///< variances are at least this; their gradient is that of the bound then
  Reduction reduction = Reduction::mean;
};
/// (log var + (x - target)^2 / var) / 2. var has the shape of x, or that with a last axis of 1 or
/// without its last axis (one variance a row), or is one number; Error if one is negative.
/// Nix & Weigend 1994.
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                         const GaussianNllOptions& options = {});
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, double var,
                         const GaussianNllOptions& options = {});

struct FocalOptions {
  double alpha = 0.25;  ///< weight of the positives, 1 - alpha of the others; negative: no weights
  double gamma = 2;     ///< >= 0; 0: cross entropy
  Reduction reduction = Reduction::none;
};
/// alpha_t (1 - p_t)^gamma cross_entropy(x, target) with p = sigmoid(x) and p_t = p where the
/// target is 1, 1 - p where it is 0. Lin et al. 2017, equation 5; torchvision.ops'.
Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target,
                          const FocalOptions& options = {});

/// x . y / (max(|x|, eps) max(|y|, eps)) along an axis; the others broadcast.
Tensor cosine_similarity(const Tensor& x, const Tensor& y, int64_t axis = 1, double eps = 1e-8);

struct PairwiseDistanceOptions {
  double p = 2;  ///< of the norm
  double eps = 1e-6;
  bool keepdim = false;
};
/// |x - y + eps|_p along the last axis; the others broadcast.
Tensor pairwise_distance(const Tensor& x, const Tensor& y,
                         const PairwiseDistanceOptions& options = {});

struct CosineEmbeddingOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
/// 1 - cos where the target is 1, max(0, cos - margin) where it is -1. x and y (N, D) with a
/// target (N), or (D) with a target (); the target is of any type and has no gradient.
Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target,
                             const CosineEmbeddingOptions& options = {});

struct TripletMarginOptions {
  double margin = 1;  ///< > 0
  double p = 2;       ///< of the distances
  double eps = 1e-6;
  bool swap = false;  ///< the negative counts from the positive where it is nearer to that
  Reduction reduction = Reduction::mean;
};
/// max(0, |anchor - positive| - |anchor - negative| + margin), of (N, D) or (D) tensors alike in
/// shape. Balntas et al. 2016.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});

struct CtcOptions {
  int64_t blank = 0;  ///< the class of no symbol
  /// mean: each loss divided by its target's length (at least 1), then the mean of these
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  ///< losses of targets that do not fit count as 0, without gradient
};
/// Connectionist temporal classification (Graves et al. 2006): -log of the probability that
/// log_probs (T, N, C) or (T, C) spell the targets, over all alignments, by forward and backward
/// sums of logarithms in double precision.
/// targets: i64 classes other than blank, (N, S) padded, or all of them in one row (of the sum of
/// target_lengths); for (T, C) a row. input_lengths <= T and target_lengths are of the N samples.
/// Errors name the sample. A target longer than its input can spell has loss infinity and a
/// gradient of NaN, unless zero_infinity.
/// The gradient is the derivative by log_probs as they are. PyTorch's is larger by exp(log_probs),
/// a difference that vanishes behind log_softmax. It has no second derivative (an Error says so).
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, const CtcOptions& options = {});

}  // namespace tern
