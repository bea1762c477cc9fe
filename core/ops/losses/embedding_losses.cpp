// cosine_similarity and pairwise_distance, and the cosine embedding and triplet margin losses.
#include "tern/core/ops/losses/loss_parts.h"
#include "tern/core/ops/losses/losses.h"
#include "tern/core/tape/record.h"

namespace tern {

using detail::check_same_shape;
using detail::reduced;

Tensor cosine_similarity(const Tensor& x, const Tensor& y, int64_t axis, double eps) {
  check_defined("cosine_similarity", x, y);
  const Shape shape = broadcast_shapes("cosine_similarity", x.shape(), y.shape());
  const int a = normalize_axis("cosine_similarity", axis, shape.size());
  auto direction = [&](const Tensor& t) {
    Tensor all = expand(t, shape);
    return all / clamp(norm(all, 2, a, true), eps, {});
  };
  return sum(direction(x) * direction(y), a);
}

Tensor pairwise_distance(const Tensor& x, const Tensor& y, const PairwiseDistanceOptions& o) {
  check_defined("pairwise_distance", x, y);
  check(x.ndim() > 0 && y.ndim() > 0,
        "pairwise_distance: needs an axis to measure along, got shapes {} and {}", x.shape(),
        y.shape());
  return norm(x - y + o.eps, o.p, -1, o.keepdim);
}

Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target,
                             const CosineEmbeddingOptions& o) {
  check_defined("cosine_embedding_loss", x, y, target);
  check_same_shape("cosine_embedding_loss", x, y);
  check((x.ndim() == 1 || x.ndim() == 2) && target.ndim() == x.ndim() - 1 &&
            (target.ndim() == 0 || target.size(0) == x.size(0)),
        "cosine_embedding_loss: inputs (N, D) need a target (N), and inputs (D) a target (); got "
        "inputs {} and a target {}",
        x.shape(), target.shape());
  constexpr double kEps = 1e-12;  // as in PyTorch
  Tensor xx = sum(square(x), -1) + kEps, yy = sum(square(y), -1) + kEps;
  Tensor cos = sum(x * y, -1) / sqrt(xx * yy);
  Tensor alike = where(eq(target, 1), 1 - cos, 0);
  Tensor apart = where(eq(target, -1), relu(cos - o.margin), 0);
  return reduced(alike + apart, o.reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& o) {
  check_defined("triplet_margin_loss", anchor, positive, negative);
  check_same_shape("triplet_margin_loss", anchor, positive);
  check_same_shape("triplet_margin_loss", anchor, negative);
  check(o.margin > 0, "triplet_margin_loss: the margin must be positive, got {}", o.margin);
  const PairwiseDistanceOptions measure{.p = o.p, .eps = o.eps};
  Tensor near = pairwise_distance(anchor, positive, measure);
  Tensor far = pairwise_distance(anchor, negative, measure);
  if (o.swap) far = minimum(far, pairwise_distance(positive, negative, measure));
  return reduced(relu(near - far + o.margin), o.reduction);
}

}  // namespace tern
