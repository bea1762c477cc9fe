// Vision Transformers: numbers of weights, names of timm, blocks, dropout, and maps of attention.
#include <doctest/doctest.h>

#include "tern/core/base/rng.h"
#include "tern/models/vit.h"
#include "tern/optim/optim.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_vit {
using models::Vit, models::VitOptions, models::VitPooling, models::VitPositions;

TEST_CASE("vit: numbers of weights, without creating the models") {
  // The first five and vit-lite-7-4 are from the papers and timm, vit-tiny-p4 from the benchmark.
  const std::vector<std::pair<std::string, int64_t>> counts = {{"vit_tiny_patch16_224", 5717416},
                                                               {"vit_small_patch16_224", 22050664},
                                                               {"vit_base_patch16_224", 86567656},
                                                               {"vit_large_patch16_224", 304326632},
                                                               {"vit_huge_patch14_224", 632045800},
                                                               {"vit-lite-7-4", 3722250},
                                                               {"vit-hybrid", 1140482},
                                                               {"vit-tiny-p4", 5412810},
                                                               {"slides-vit", 4770570}};
  for (const auto& named : counts)
    CHECK_MESSAGE(models::vit_weights(models::vit_options(named.first)) == named.second,
                  named.first);
  CHECK(models::vit_names().size() == 9);
  CHECK_THROWS_WITH_AS(models::vit_options("vit_mini"), doctest::Contains("vit-lite-7-4"), Error);
  for (const char* name : {"vit_tiny_patch16_224", "vit_small_patch16_224", "vit-lite-7-4",
                           "vit-hybrid", "vit-tiny-p4", "slides-vit"}) {
    Rng rng(0);
    const VitOptions o = models::vit_options(name);
    CHECK_MESSAGE(nn::num_parameters(Vit(o, rng)) == models::vit_weights(o), name);
  }
}

TEST_CASE("vit: names and their order match timm's") {
  Rng rng(0);
  std::vector<std::string> names,
      want = {"cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"};
  for (const char* i : {"0", "1"})
    for (const char* n : {"norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"})
      for (const char* kind : {"weight", "bias"})
        want.push_back(fmt::format("blocks.{}.{}.{}", i, n, kind));
  for (const char* n : {"norm.weight", "norm.bias", "head.weight", "head.bias"}) want.push_back(n);
  for (const auto& [name, t] : nn::state_dict(Vit(test::tiny_vit(), rng))) names.push_back(name);
  CHECK(names == want);
}

TEST_CASE("vit: computing only a block's first tokens gives the same values and gradients") {
  for (const auto& form : test::vit_forms()) {
    CAPTURE(form.first);
    Rng rng(3);
    models::VitBlock block(form.second, 1, rng);
    nn::to(block, DType::f64);
    test::check_first_tokens(block, randn({2, 5, 8}, rng, DType::f64));
  }
}

TEST_CASE("vit: every dropout acts; stochastic depth 0 does nothing") {
  Rng rng(3);
  Tensor x = randn({4, 3, 8, 8}, rng);
  auto model_of = [](const VitOptions& o) {
    Rng own(5);
    return Vit(o, own);
  };
  const Tensor plain = model_of(test::tiny_vit())(x);
  auto changes = [&](auto&& set) {
    VitOptions o = test::tiny_vit();
    set(o);
    Vit model = model_of(o);
    const bool changed = !test::same(model(x), plain);
    nn::set_training(model, false);
    CHECK(test::same(model(x), plain));
    return changed;
  };
  CHECK(changes([](VitOptions& o) { o.dropout = 0.3; }));
  CHECK(changes([](VitOptions& o) { o.position_dropout = 0.3; }));
  CHECK(changes([](VitOptions& o) { o.attention_dropout = 0.3; }));
  CHECK(changes([](VitOptions& o) { o.projection_dropout = 0.3; }));
  CHECK(changes([](VitOptions& o) { o.mlp_dropout = 0.3; }));
  CHECK(changes([](VitOptions& o) { o.drop_path = 0.5; }));
  CHECK_FALSE(changes([](VitOptions& o) { o.drop_path = 0; }));
  CHECK_FALSE(changes([](VitOptions& o) {
    o.dropout = 0.3;
    o.position_dropout = o.attention_dropout = o.projection_dropout = o.mlp_dropout = 0;
  }));
  VitOptions deep = test::tiny_vit();
  deep.drop_path = 0.3;
  deep.layers = 4;
  const Vit model = model_of(deep);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(model.blocks[i].branch1.drop_path.p == doctest::Approx(0.1 * static_cast<double>(i)));
    CHECK(model.blocks[i].branch2.drop_path.p == model.blocks[i].branch1.drop_path.p);
  }
}

TEST_CASE("vit: smaller versions of the CIFAR forms memorise a batch") {
  for (const auto& named : models::vit_cifar_configurations()) {
    Rng rng(3);
    VitOptions o = named.second;
    o.image = 8;
    o.dim = 48;
    o.layers = 3;
    o.mlp_dim = 64;
    o.dropout = 0;
    Vit model(o, rng);
    optim::AdamW optimizer(nn::named_parameters(model), {.lr = 3e-3});
    const Tensor x = randn({16, 3, 8, 8}, rng), labels = randint(0, 10, {16}, rng);
    double loss = 0;
    for (int i = 0; i < 60; ++i) {
      const Tensor found = cross_entropy(model(x), labels);
      found.backward();
      optimizer.step();
      optimizer.zero_grad();
      loss = found.item();
    }
    CHECK_MESSAGE(loss < 0.1, named.first, " ", loss);
  }
}

TEST_CASE("vit: rows of attention maps and rollouts sum to 1") {
  for (const auto& form : test::vit_forms()) {
    const auto& name = form.first;
    const auto& o = form.second;
    CAPTURE(name);
    Rng rng(3);
    Vit model(o, rng);
    nn::set_training(model, false);
    const Tensor x = randn({3, 3, 8, 8}, rng);
    const std::vector<Tensor> maps = model.attention_maps(x);
    REQUIRE(std::ssize(maps) == o.layers);
    const int64_t tokens = 4 + model.prefix_tokens();
    for (const Tensor& a : maps) {
      CHECK(a.shape() == Shape{3, 2, tokens, tokens});
      CHECK(test::close(sum(a, -1), ones({3, 2, tokens})));
      CHECK(min(a).item() >= 0);
    }
    const Tensor rollout = models::attention_rollout(maps);
    CHECK(rollout.shape() == Shape{3, tokens, tokens});
    CHECK(test::close(sum(rollout, -1), ones({3, tokens})));
  }
}

TEST_CASE("vit: the weights of a block are softmax(q k / sqrt(D))") {
  Rng rng(3);
  const models::VitBlock block(test::tiny_vit(), 0, rng);
  const Tensor x = randn({2, 5, 8}, rng);
  Tensor weights;
  const Tensor with = block.first(x, 5, &weights);
  CHECK(test::close(with, block(x)));
  const Tensor qkv = reshape(block.attn.qkv(block.norm1(x)), {2, 5, 3, 2, 4});
  auto heads = [&](int64_t i) { return transpose(select(qkv, 2, i), 1, 2); };
  const Tensor scores = matmul(heads(0), transpose(heads(1), 2, 3)) / 2;
  CHECK(test::close(weights, softmax(scores, -1)));
}

TEST_CASE("vit: rollout multiplies the layers' means plus the identity") {
  Rng rng(3);
  std::vector<Tensor> attention;
  for (int i = 0; i < 3; ++i) attention.push_back(softmax(randn({2, 4, 5, 5}, rng), -1));
  Tensor want = eye(5);
  for (const Tensor& a : attention) want = matmul((mean(a, 1) + eye(5)) / 2, want);
  CHECK(test::close(models::attention_rollout(attention), want));
  // Without attention every token sees only itself.
  CHECK(test::same(models::attention_rollout({zeros({1, 2, 3, 3})}), unsqueeze(eye(3), 0)));
  CHECK_THROWS_WITH_AS(models::attention_rollout({}), doctest::Contains("at least one layer"),
                       Error);
  CHECK_THROWS_AS(models::attention_rollout({zeros({1, 2, 3, 4})}), Error);
  CHECK_THROWS_AS(models::attention_rollout({zeros({1, 2, 3, 3}), zeros({1, 2, 4, 4})}), Error);
}

TEST_CASE("vit: behind a stem, the model sees the stem's channels") {
  Rng rng(3);
  VitOptions o = test::tiny_vit();
  o.stem = test::pooling_stem();
  o.patch = 2;
  Vit model(o, rng);
  for (const auto& named : nn::named_parameters(model))
    if (named.second.ndim() == 1) nn::init::uniform(named.second, .5, 1.5, rng);  // norms
  Tensor seen = randn({5, 3, 8, 8}, rng);
  const Tensor logits = model(seen);
  for (size_t i = 0; i < model.stem.size(); ++i) {  // in training: statistics of the batch
    Tensor y = conv2d(seen, model.stem[i].conv.weight, {}, {.padding = {1, 1}});
    if (i == 1) y = amax(unflatten(unflatten(y, 3, {4, 2}), 2, {4, 2}), {3, 5});
    const Tensor centred = y - mean(y, {0, 2, 3}, true);
    y = centred / sqrt(mean(square(centred), {0, 2, 3}, true) + 1e-5);
    y = y * reshape(model.stem[i].norm.weight, {-1, 1, 1}) +
        reshape(model.stem[i].norm.bias, {-1, 1, 1});
    y = gelu(y);
    seen = i == 2 ? seen + y : y;
  }
  o.stem = {};
  o.channels = 6;
  o.image = 4;
  Vit rest(o, rng);
  NamedTensors state;
  for (const auto& [name, value] : nn::state_dict(model))
    if (!name.starts_with("stem.")) state.emplace_back(name, value);
  nn::load_state_dict(rest, state);
  CHECK(test::close(rest(seen), logits, 1e-5, 1e-5));
  CHECK(model.patch_size() == 4);
  CHECK(model.summary() ==
        "2 blocks on 5 tokens of 8 channels, 2 heads, behind a stem of 3 convolutions");
  CHECK(model.patch_maps(randn({1, 3, 8, 8}, rng)).maps[0].values.shape() == Shape{1, 1, 2, 2});
}

TEST_CASE("vit: summary and maps") {
  Rng rng(3);
  VitOptions o = test::tiny_vit();
  const Tensor images = randn({3, 3, 8, 8}, rng);
  Vit model(o, rng);
  nn::set_training(model, false);
  CHECK(model.summary() == "2 blocks on 5 tokens of 8 channels, 2 heads");
  CHECK(model.patch_size() == 4);
  const std::vector<Tensor> attention = model.attention_maps(images);
  const models::PatchMaps found = model.patch_maps(images);
  REQUIRE(found.maps.size() == 3);
  CHECK(found.maps[0].values.shape() == Shape{3, 1, 2, 2});
  CHECK(found.maps[2].values.shape() == Shape{3, 2, 2, 2});
  CHECK(found.maps[2].labels == models::head_labels(2));
  CHECK_FALSE(found.maps[2].values.requires_grad());
  for (int64_t patch = 0; patch < 4; ++patch)  // the class token's row, in reading order
    CHECK(found.maps[2].values[2][1][patch / 2][patch % 2].item() ==
          attention[1][2][1][0][1 + patch].item());
  const models::Heatmaps positions = model.heatmaps(images);
  REQUIRE(positions.maps.size() == 1);
  const Tensor cosines = positions.maps[0].values;
  CHECK(cosines.shape() == Shape{1, 5, 5});
  CHECK(test::close(diagonal(cosines[0]), ones({5})));
  const Tensor a = model.pos_embed.tensor()[0][1], b = model.pos_embed.tensor()[0][4];
  CHECK(cosines[0][1][4].item() ==
        doctest::Approx(sum(a * b).item() / (norm(a).item() * norm(b).item())));

  o.pooling = VitPooling::average;
  o.positions = VitPositions::none;
  Vit average(o, rng);
  nn::set_training(average, false);
  const Tensor mean_of = average.patch_maps(images).maps[1].values;
  const Tensor all = average.attention_maps(images)[0];
  CHECK(mean_of[0][0][0][1].item() ==
        doctest::Approx(mean(narrow(select(all[0][0], 1, 2), 0, 1, 4)).item()));
  CHECK(average.heatmaps(images).maps.empty());
}

TEST_CASE("vit: invalid options and images are errors") {
  Rng rng(3);
  auto refused = [&](auto&& set, const char* text) {
    VitOptions o = test::tiny_vit();
    set(o);
    CHECK_THROWS_WITH_AS(models::vit_weights(o), doctest::Contains(text), Error);
    CHECK_THROWS_WITH_AS(Vit(o, rng), doctest::Contains(text), Error);
  };
  refused([](VitOptions& o) { o.patch = 3; }, "patches of 3");
  refused([](VitOptions& o) { o.heads = 3; }, "3 heads");
  using models::Stem;
  refused([](VitOptions& o) { o.stem = {{.stride = 3}}; }, "patches of 4 do not tile 3 x 3");
  refused([](VitOptions& o) { o.stem = {{.channels = 0}}; }, "one layer has 0 and 1");
  for (const Stem& stem : {Stem{{.channels = 3, .residual = true}},
                           Stem{{.channels = 4}, {.channels = 6, .residual = true}},
                           Stem{{.channels = 4}, {.channels = 4, .pool = true, .residual = true}}})
    refused([&](VitOptions& o) { o.stem = stem; }, "residual layer of the stem");
  refused([](VitOptions& o) { o.layers = -1; }, "-1 layers");
  refused([](VitOptions& o) { o.class_token = false; }, "pool the average");
  refused([](VitOptions& o) { o.dim = 6, o.positions = VitPositions::sincos; }, "a multiple of 4");
  CHECK_THROWS_AS(Vit(test::tiny_vit(), rng)(zeros({1, 3, 9, 8})), Error);
  CHECK_THROWS_AS(Vit(test::tiny_vit(), rng)(zeros({3, 8, 8})), Error);
}

}  // namespace tern::test_vit
