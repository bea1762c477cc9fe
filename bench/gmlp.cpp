// Training steps of the image classifiers gmlp-4m and gmlp-51m on 32 pictures of 32 x 32.
#include "tern/models/gmlp.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

Case gmlp_case(const char* name, const char* preset) {
  constexpr int64_t kBatch = 32;
  auto make = [preset](nn::Recompute recompute) {
    Rng rng(0);
    models::GmlpOptions options = models::gmlp_options(preset);
    options.recompute = recompute;
    auto model = std::make_shared<models::Gmlp>(options, rng);
    return classify(model, randn({kBatch, 3, 32, 32}, rng), rng);
  };
  return {name, kBatch, make};
}

}  // namespace

std::vector<Case> gmlp_cases() {
  return {gmlp_case("gmlp-4m/b32", "gmlp-4m"), gmlp_case("gmlp-51m/b32", "gmlp-51m")};
}

}  // namespace tern::bench
