// The gMLP for images with every pair of options: every value of one with every value of the other.
#include <doctest/doctest.h>

#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gmlp.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/model_checks.h"
#include "tern/tests/support/option_pairs.h"

namespace tern::test_gmlp_forms {
using models::Gmlp, models::GmlpOptions;
using nn::Gate, nn::SpatialMatrix;
using test::check_leaves, test::close, test::same;

namespace {

const test::Choices<GmlpOptions>& options() {
  static const test::Choices<GmlpOptions> kOptions = {
      {{"additive", [](auto& o) { o.gate.gate = Gate::additive; }},
       {"linear", [](auto& o) { o.gate.gate = Gate::linear, o.gate.split = false; }}},
      {{"unsplit", [](auto& o) { o.gate.split = false; }}},
      {{"heads", [](auto& o) { o.gate.heads = 4; }}},
      {{"toeplitz", [](auto& o) { o.gate.matrix = SpatialMatrix::toeplitz; }},
       {"circulant", [](auto& o) { o.gate.matrix = SpatialMatrix::circulant; }}},
      {{"causal", [](auto& o) { o.gate.causal = true, o.class_token = false; }}},
      {{"start near 0", [](auto& o) { o.gate.weight_bound = 1e-6; }}},
      {{"attention", [](auto& o) { o.attention_dim = 4; }}},
      {{"stem",
        [](auto& o) {
          o.stem = {{4, 1}, {6, 2}};
        }}},
      {{"mean", [](auto& o) { o.class_token = false; }}},
      {{"no positions", [](auto& o) { o.positions = false; }}},
      {{"no second GELU", [](auto& o) { o.output_gelu = false; }}},
      {{"head at once", [](auto& o) { o.fc_dim = 0; }}},
      {{"no dropout", [](auto& o) { o.dropout = 0; }}},
      {{"drop path", [](auto& o) { o.drop_path = 0.2; }}},
      {{"timm's names", [](auto& o) { o.naming = models::GmlpNaming::timm; }}},
      {{"one layer", [](auto& o) { o.layers = 1; }}},
      {{"odd sizes", [](auto& o) { o.dim = 7, o.d_ffn = 24, o.image = 9, o.patch = 3; }}},
  };
  return kOptions;
}

void for_pairs(const std::function<void(const std::string&, const GmlpOptions&)>& fn) {
  const GmlpOptions tiny{.image = 8, .patch = 4, .dim = 8, .layers = 2, .fc_dim = 6};
  test::for_pairs(tiny, options(), [&](const std::string& name, GmlpOptions& o) {
    if (!o.stem.empty() && o.image == 9) o.patch = 5;  // the stem leaves 5 pixels
    fn(name, o);
  });
}

Tensor images(const GmlpOptions& o, int64_t batch, Rng& rng, DType dtype = DType::f32) {
  return randn({batch, o.channels, o.image, o.image}, rng, dtype);
}

}  // namespace

TEST_CASE("gmlp forms: the loss depends on all parameters and nothing else; all are trained") {
  int count = 0;
  for_pairs([&](const std::string& name, const GmlpOptions& o) {
    CAPTURE(name);
    ++count;
    Rng rng(3);
    Gmlp model(o, rng);
    const Tensor logits = model(images(o, 3, rng));
    REQUIRE(logits.shape() == Shape{3, 10});
    CHECK(models::gmlp_weights(o) == nn::num_parameters(model));
    const Tensor loss = cross_entropy(logits, tensor<int64_t>({1, 0, 9}, {3}));
    check_leaves(loss, model);
    optim::AdamW optimizer(nn::named_parameters(model));
    optim::check_training_graph(loss, nn::named_parameters(model), optimizer);
    loss.backward();
    for (const auto& p : nn::named_parameters(model))  // not missing or NaN
      CHECK_MESSAGE(all_close(p.second.grad(), p.second.grad(), 0, 0), p.first);
    optimizer.step();
  });
  CHECK(count > 180);
}

TEST_CASE("gmlp forms: a row of a batch equals the image alone, in f64; no dropout in evaluation") {
  for_pairs([&](const std::string& name, const GmlpOptions& o) {
    CAPTURE(name);
    Rng rng(4);
    Gmlp model(o, rng);
    nn::to(model, DType::f64);
    nn::set_training(model, false);
    NoGradGuard guard;
    const Tensor x = images(o, 3, rng, DType::f64), all = model(x);
    CHECK(same(all, model(x)));
    CHECK(close(model(narrow(x, 0, 1, 1)), narrow(all, 0, 1, 1), 1e-10, 1e-12));
    CHECK(model(narrow(x, 0, 0, 0)).shape() == Shape{0, 10});
  });
}

TEST_CASE("gmlp forms: weights load by their names, and the heatmaps show W") {
  for_pairs([&](const std::string& name, const GmlpOptions& o) {
    CAPTURE(name);
    Rng rng(5), other(6);
    Gmlp a(o, rng), b(o, other);
    nn::load_state_dict(b, nn::state_dict(a));
    nn::set_training(a, false);
    nn::set_training(b, false);
    NoGradGuard guard;
    const Tensor x = images(o, 2, rng);
    CHECK(same(a(x), b(x)));
    const models::Heatmaps maps = a.heatmaps(x);
    REQUIRE(std::ssize(maps.maps) == o.layers);
    const int64_t tokens = a.model.blocks[0].sgu.bias.size(-1);
    for (size_t i = 0; i < maps.maps.size(); ++i) {
      const Tensor w = a.model.blocks[i].sgu.spatial_weight();
      CHECK(maps.maps[i].values.shape() == Shape{o.gate.heads, tokens, tokens});
      CHECK(same(flatten(maps.maps[i].values), flatten(w)));
    }
  });
}

TEST_CASE("gmlp forms: a fresh block with W = 0 and b = 1 is a plain FFN") {
  for_pairs([&](const std::string& name, const GmlpOptions& o) {
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
  for_pairs([&](const std::string& name, const GmlpOptions& o) {
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
