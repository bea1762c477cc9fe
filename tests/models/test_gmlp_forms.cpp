// Blocks and heatmaps of the gMLP for images with every pair of options: every value of one with
// every value of the other.
#include <doctest/doctest.h>

#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gmlp.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_gmlp_forms {
using models::Gmlp, models::GmlpOptions;
using nn::Gate;
using test::close, test::same;

namespace {

/// fn(name, options) for every option by itself and with every other.
void for_forms(const std::function<void(const std::string&, const GmlpOptions&)>& fn) {
  test::for_singles(test::tiny_gmlp(), test::gmlp_choices(), fn);
  test::for_pairs(test::tiny_gmlp(), test::gmlp_choices(), fn);
}

}  // namespace

TEST_CASE("gmlp forms: the heatmaps show W") {
  int count = 0;
  for_forms([&](const std::string& name, const GmlpOptions& o) {
    CAPTURE(name);
    ++count;
    Rng rng(5);
    const Gmlp model(o, rng);
    const models::Heatmaps maps = model.heatmaps({});
    REQUIRE(std::ssize(maps.maps) == o.layers);
    const int64_t tokens = model.model.blocks[0].sgu.bias.size(-1);
    for (size_t i = 0; i < maps.maps.size(); ++i) {
      const Tensor w = model.model.blocks[i].sgu.spatial_weight();
      CHECK(maps.maps[i].values.shape() == Shape{o.gate.heads, tokens, tokens});
      CHECK(same(flatten(maps.maps[i].values), flatten(w)));
    }
  });
  CHECK(count > 180);
}

TEST_CASE("gmlp forms: a fresh block with W = 0 and b = 1 is a plain FFN") {
  for_forms([&](const std::string& name, const GmlpOptions& o) {
    if (o.gate.gate != Gate::multiplicative || o.attention_dim > 0) return;
    CAPTURE(name);
    Rng rng(7);
    GmlpOptions zero = o;
    zero.gate.weight_bound = 0;
    const models::GmlpBlock block(zero.block(), 5, 0, rng);
    const Tensor x = randn({2, 5, o.dim}, rng);
    const int64_t width = block.channel_proj_v.weight.size(1);  // only u passes through
    const Tensor up = narrow(block.channel_proj_u.weight, 0, 0, width);
    const Tensor bias = narrow(block.channel_proj_u.bias, 0, 0, width);
    Tensor ffn = block.channel_proj_v(gelu(linear(block.norm(x), up, bias)));
    if (o.output_gelu) ffn = gelu(ffn);
    CHECK(close(block(x), x + ffn, 1e-5, 1e-6));
  });
}

TEST_CASE("gmlp forms: a causal block sees no later token, bit for bit; steps equal the whole") {
  for_forms([&](const std::string& name, const GmlpOptions& o) {
    if (!o.gate.causal) return;
    CAPTURE(name);
    Rng rng(8);
    GmlpOptions wide = o;
    wide.gate.weight_bound = 0.5;
    models::GmlpBlock block(wide.block(), 5, 0, rng);
    nn::to(block, DType::f64);
    nn::set_training(block, false);
    NoGradGuard guard;
    const Tensor x = randn({2, 5, o.dim}, rng, DType::f64), whole = block(x);
    const Tensor other = cat({narrow(x, 1, 0, 3), randn({2, 2, o.dim}, rng, DType::f64)}, 1);
    CHECK(same(narrow(whole, 1, 0, 3), narrow(block(other), 1, 0, 3)));
    CHECK_FALSE(same(narrow(whole, 1, 3, 2), narrow(block(other), 1, 3, 2)));
    models::GmlpBlockCache cache;
    std::vector<Tensor> parts = {block.step(narrow(x, 1, 0, 2), cache)};
    for (int64_t t = 2; t < 5; ++t) parts.push_back(block.step(narrow(x, 1, t, 1), cache));
    CHECK(close(cat(parts, 1), whole, 1e-10, 1e-12));
  });
}

}  // namespace tern::test_gmlp_forms
