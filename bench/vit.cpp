// Training step of a small Vision Transformer with patches of 4 x 4, on 64 pictures.
#include "tern/models/vit.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"

namespace tern::bench {
namespace {

constexpr int64_t kBatch = 64;

Workload make_vit(models::VitOptions options, nn::Recompute recompute) {
  Rng rng(0);
  options.recompute = recompute;
  auto model = std::make_shared<models::Vit>(options, rng);
  const int64_t side = options.image;
  return classify(model, randn({kBatch, options.channels, side, side}, rng), rng);
}

}  // namespace

std::vector<Case> vit_cases() {
  const models::VitOptions options = models::vit_options("vit-tiny-p4");
  return {{"vit-tiny-p4/b64", kBatch, [=](nn::Recompute r) { return make_vit(options, r); }}};
}

}  // namespace tern::bench
