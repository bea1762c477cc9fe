// Where a ViT looks.
#include "tern/models/vit.h"

namespace tern::models {

Tensor attention_rollout(const std::vector<Tensor>& attention) {
  check(!attention.empty(), "attention_rollout: there are no layers");
  const Shape first = attention[0].shape();
  Tensor flow;
  for (const Tensor& a : attention) {
    check(a.shape() == first && a.ndim() == 4 && a.size(2) == a.size(3),
          "attention_rollout: needs (B, H, N, N) of every layer, got {} and {}", first, a.shape());
    const Tensor with_sum = mean(a, 1) + eye(a.size(2), -1, a.dtype());
    const Tensor layer = with_sum / sum(with_sum, -1, true);
    flow = flow.defined() ? matmul(layer, flow) : layer;
  }
  return flow;
}

}  // namespace tern::models
