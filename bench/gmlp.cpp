#include "tern/models/gmlp.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

// Two operations a multiplication; a linear layer has three products of the same size a step
// (forward, gradient of the input, of the weight), the patches two (nobody wants the image's).
// Of the last block only token 0 is looked at: the gate needs half of the hidden channels for all
// tokens, everything else is computed for that token alone.
double gmlp_gflop(double batch, double dim, double layers) {
  double tokens = 17, rows = batch * tokens, half = 2 * dim;
  double patches = 2 * 2 * batch * 16 * (3 * 8 * 8) * dim;
  double block = 3 * 2 * (rows * 3 * dim * half + batch * tokens * tokens * half);
  double last = 3 * 2 * (rows * dim * half + batch * tokens * half + batch * 2 * dim * half);
  double head = 3 * 2 * batch * (dim * 256 + 256 * 10);
  return (patches + (layers - 1) * block + last + head) / 1e9;
}

Case gmlp_case(const char* name, const char* preset, double dim, double layers) {
  constexpr int64_t kBatch = 32;
  auto make = [preset](nn::Recompute recompute) {
    Rng rng(0);
    models::GmlpOptions options = models::gmlp_options(preset);
    options.recompute = recompute;
    auto model = std::make_shared<models::Gmlp>(options, rng);
    Tensor images = randn({kBatch, 3, 32, 32}, rng), labels = randint(0, 10, {kBatch}, rng);
    return Workload{nn::named_parameters(*model),
                    [=] { return cross_entropy((*model)(images), labels); }};
  };
  return {name, kBatch, gmlp_gflop(kBatch, dim, layers), make};
}

}  // namespace

std::vector<Case> gmlp_cases() {
  return {gmlp_case("gmlp-4m/b32", "gmlp-4m", 512, 3),
          gmlp_case("gmlp-51m/b32", "gmlp-51m", 1024, 8)};
}

}  // namespace tern::bench
