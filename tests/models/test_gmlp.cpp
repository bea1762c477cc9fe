// The gMLP for images: numbers of weights, names of both kinds, the first tokens of blocks, and
// heatmaps.
#include <doctest/doctest.h>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gmlp.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_gmlp {
using models::Gmlp, models::GmlpOptions;
using test::gmlp_choices, test::tiny_gmlp;

namespace {

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

}  // namespace

TEST_CASE("gmlp: weights of the configurations") {
  // The first two and timm's are the reference's numbers. The others are counted from the shapes.
  const std::vector<std::pair<std::string, int64_t>> counts = {
      {"gmlp-4m", 4979360},      {"gmlp-51m", 50907290},     {"gmlp-4m-heads4", 4982114},
      {"gmlp-small", 101008},    {"gmlp-stem", 1258890},     {"gmlp-hybrid", 894722},
      {"gmlp-ti-p4", 4613898},   {"gmlp_ti16_224", 5867328}, {"gmlp_s16_224", 19422656},
      {"gmlp_b16_224", 73075392}};
  std::vector<std::string> names;
  for (const auto& entry : counts) {
    CHECK_MESSAGE(models::gmlp_weights(models::gmlp_options(entry.first)) == entry.second,
                  entry.first);
    names.push_back(entry.first);
  }
  CHECK(models::gmlp_names() == names);
  CHECK_THROWS_WITH_AS(models::gmlp_options("gmlp-5m"), doctest::Contains("gmlp-51m"), Error);
  for (const auto& [name, o] : models::gmlp_configurations()) {
    CHECK(o.image == 32);
    CHECK(o.classes == 10);
  }
}

TEST_CASE("gmlp: names match the reference's") {
  Rng rng(0);
  std::vector<std::string> names,
      want = {"model.patch_embed.proj.weight", "model.patch_embed.proj.bias", "model.cls_token",
              "model.pos_embed"};
  for (std::string i : {"0", "1"})
    for (const char* n : {"norm.weight", "norm.bias", "channel_proj_U.0.weight",
                          "channel_proj_U.0.bias", "sgu.norm.weight", "sgu.norm.bias", "sgu.weight",
                          "sgu.bias", "channel_proj_V.0.weight", "channel_proj_V.0.bias"})
      want.push_back("model.blocks.layers." + i + "." + n);
  for (const char* n : {"model.norm.weight", "model.norm.bias", "fc_1.weight", "fc_1.bias",
                        "head.weight", "head.bias"})
    want.push_back(n);
  for (const auto& [name, t] : nn::state_dict(Gmlp(tiny_gmlp(), rng))) names.push_back(name);
  CHECK(names == want);
}

TEST_CASE("gmlp: the paper's form has timm's names, in timm's order") {
  Rng rng(0);
  GmlpOptions o = models::gmlp_options("gmlp_ti16_224");
  CHECK(o.layers == 30);
  CHECK(o.image / o.patch == 14);
  o.layers = 2;
  std::vector<std::string> names, want = {"stem.proj.weight", "stem.proj.bias"};
  for (std::string i : {"0", "1"})
    for (const char* n :
         {"norm.weight", "norm.bias", "mlp_channels.fc1.weight", "mlp_channels.fc1.bias",
          "mlp_channels.gate.norm.weight", "mlp_channels.gate.norm.bias",
          "mlp_channels.gate.proj.weight", "mlp_channels.gate.proj.bias", "mlp_channels.fc2.weight",
          "mlp_channels.fc2.bias"})
      want.push_back("blocks." + i + "." + n);
  for (const char* n : {"norm.weight", "norm.bias", "head.weight", "head.bias"}) want.push_back(n);
  const Gmlp model(o, rng);
  for (const auto& [name, t] : nn::state_dict(model)) names.push_back(name);
  CHECK(names == want);
  for (double eps : {model.model.norm.eps, model.model.blocks[1].norm.eps}) CHECK(eps == 1e-6);
  CHECK(model.model.blocks[1].sgu.norm.eps == 1e-5);
}

TEST_CASE("gmlp: the naming changes only names") {
  test::for_singles(tiny_gmlp(), gmlp_choices(), [](const std::string& name, GmlpOptions o) {
    o.naming = models::GmlpNaming::post;
    Rng rng(3), same(3), data(4);
    const Gmlp post(o, rng);
    o.naming = models::GmlpNaming::timm;
    const Gmlp timm(o, same);
    const Tensor x = randn({2, 3, o.image, o.image}, data);
    CHECK_MESSAGE(values(post(x)) == values(timm(x)), name);
    CHECK(nn::named_parameters(post).size() == nn::named_parameters(timm).size());
  });
}

TEST_CASE("gmlp: computing only a block's first tokens gives the same values and gradients") {
  test::for_singles(tiny_gmlp(), gmlp_choices(), [](const std::string& name, GmlpOptions o) {
    CAPTURE(name);
    Rng rng(3);
    o.drop_path = 0;
    models::GmlpBlock block(o.block(), 5, 0, rng);
    nn::to(block, DType::f64);
    test::check_first_tokens(block, randn({2, 5, o.dim}, rng, DType::f64));
  });
}

TEST_CASE("gmlp: summary and heatmaps") {
  Rng rng(1);
  const models::Gmlp small(models::gmlp_options("gmlp-small"), rng);
  CHECK(small.summary() == "3 blocks on 65 tokens of 64 channels");
  CHECK(small.patch_size() == 4);
  const models::Heatmaps maps = small.heatmaps({});
  CHECK(maps.title == "Spatial weights");
  CHECK(maps.caption.find("class token") != std::string::npos);
  REQUIRE(maps.maps.size() == 3);
  CHECK(maps.maps[1].title == "Layer 2");
  CHECK(maps.maps[1].values.shape() == Shape{1, 65, 65});
  CHECK(maps.maps[1].values.to_vector<float>() == small.spatial_weights()[1].to_vector<float>());

  models::GmlpOptions heads{.image = 8, .patch = 4, .dim = 8, .layers = 1, .class_token = false};
  heads.gate.heads = 2;
  const models::Gmlp wide(heads, rng);
  const models::Heatmap both = wide.heatmaps({}).maps.at(0);
  CHECK(both.values.shape() == Shape{2, 4, 4});
  CHECK(both.labels == std::vector<std::string>{"head 1", "head 2"});
  CHECK(both.mean_label == "mean of the heads");
  CHECK(maps.maps[1].labels.empty());
  CHECK(maps.maps[1].mean_label.empty());
  for (const char* name : {"gmlp-stem", "gmlp-hybrid"})
    CHECK(models::Gmlp(models::gmlp_options(name), rng).patch_size() == 4);
}

TEST_CASE("gmlp: spatial matrices; invalid options and images are errors") {
  Rng rng(3);
  GmlpOptions o = tiny_gmlp();
  o.gate.heads = 4;
  std::vector<Tensor> w = Gmlp(o, rng).spatial_weights();
  CHECK(w.size() == 2);
  CHECK(w[0].shape() == Shape{4, 5, 5});
  CHECK_FALSE(w[0].requires_grad());
  CHECK_THROWS_AS(Gmlp(o, rng)(zeros({1, 3, 9, 8})), Error);
  CHECK_THROWS_AS(Gmlp(o, rng)(zeros({3, 8, 8})), Error);
  o.patch = 3;
  CHECK_THROWS_AS(Gmlp(o, rng), Error);
  GmlpOptions blind = tiny_gmlp();
  blind.gate.causal = true;  // the class token, which is classified, would see nothing
  CHECK_THROWS_WITH_AS(Gmlp(blind, rng), doctest::Contains(".class_token = false"), Error);
  GmlpOptions negative = tiny_gmlp();
  negative.attention_dim = -4;
  CHECK_THROWS_AS(Gmlp(negative, rng), Error);
  for (const double p : {-0.1, 1.0}) {
    GmlpOptions dropped = tiny_gmlp();
    dropped.drop_path = p;
    CHECK_THROWS_WITH_AS(Gmlp(dropped, rng), doctest::Contains("p must be in [0, 1)"), Error);
  }
}

}  // namespace tern::test_gmlp
