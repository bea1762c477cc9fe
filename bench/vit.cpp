#include "tern/models/vit.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"

namespace tern::bench {
namespace {

constexpr int64_t kBatch = 64;

// Two operations a multiplication; a linear layer has three products of the same size a step
// (forward, gradient of the input, of the weight), attention twice two and their gradients, the
// patches two (nobody wants the image's). The last block has keys and values for all tokens, and
// everything else for token 0 alone.
double vit_gflop(const models::VitOptions& o) {
  const double batch = kBatch, d = o.dim, ffn = 4 * d, side = o.image / o.patch;
  const double patches = side * side, tokens = patches + 1, rows = batch * tokens;
  const double patch = static_cast<double>(o.channels * o.patch * o.patch);
  const double embed = 2 * 2 * batch * patches * patch * d;
  const double block = 3 * 2 * rows * (4 * d * d + 2 * d * ffn + 2 * tokens * d);
  const double last =
      3 * 2 * (rows * 2 * d * d + batch * (2 * d * d + 2 * d * ffn + 2 * tokens * d));
  const double head = 3 * 2 * batch * (d * o.fc_dim + o.fc_dim * o.classes);
  return (embed + (o.layers - 1) * block + last + head) / 1e9;
}

Workload make_vit(models::VitOptions options, nn::Recompute recompute) {
  Rng rng(0);
  options.recompute = recompute;
  auto model = std::make_shared<models::Vit>(options, rng);
  const int64_t side = options.image;
  Tensor images = randn({kBatch, options.channels, side, side}, rng);
  Tensor labels = randint(0, options.classes, {kBatch}, rng);
  return {nn::named_parameters(*model), [=] { return cross_entropy((*model)(images), labels); }};
}

}  // namespace

std::vector<Case> vit_cases() {
  const models::VitOptions options = models::vit_options("vit-tiny-p4");
  return {{"vit-tiny-p4/b64", kBatch, vit_gflop(options),
           [=](nn::Recompute r) { return make_vit(options, r); }}};
}

}  // namespace tern::bench
