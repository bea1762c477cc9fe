#include <doctest/doctest.h>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/models/vit.h"
#include "tern/optim/optim.h"
#include "tern/tests/model_checks.h"

using namespace tern;
using models::Vit, models::VitOptions, models::VitPooling, models::VitPositions,
    models::VitFinalNorm;

namespace {

VitOptions tiny() {
  return {.image = 8, .patch = 4, .dim = 8, .layers = 2, .heads = 2, .mlp_dim = 12, .classes = 10};
}

// One form for every option that changes the graph.
std::vector<std::pair<std::string, VitOptions>> forms() {
  std::vector<std::pair<std::string, VitOptions>> out = {{"timm", tiny()}};
  auto form = [&](const char* name) -> VitOptions& {
    out.emplace_back(name, tiny());
    return out.back().second;
  };
  form("sin-cos").positions = VitPositions::sincos;
  form("no positions").positions = VitPositions::none;
  form("average").pooling = VitPooling::average;
  VitOptions& average = form("average without a class token");
  average.pooling = VitPooling::average;
  average.class_token = false;
  average.final_norm = VitFinalNorm::tokens;
  VitOptions& registers = form("registers without positions, layer scale");
  registers.registers = 3;
  registers.positions_on_prefix = false;
  registers.layer_scale = 0.5;
  VitOptions& clip = form("norm before the blocks, hidden layer, no bias of qkv");
  clip.norm_pre = true;
  clip.fc_dim = 6;
  clip.qkv_bias = false;
  clip.final_norm = VitFinalNorm::pooled;
  VitOptions& post = form("post-norm");
  post.norm_first = false;
  post.final_norm = VitFinalNorm::none;
  post.activation = Activation::relu;
  form("no head").classes = 0;
  VitOptions& one = form("one layer, sin-cos beside registers");
  one.layers = 1;
  one.positions = VitPositions::sincos;
  one.registers = 1;
  return out;
}

VitOptions with_dropouts(VitOptions o) {
  o.dropout = 0.2;
  o.attention_dropout = 0.1;
  o.drop_path = 0.3;
  return o;
}

}  // namespace

TEST_CASE("vit: weights of the configurations, without making them") {
  // The first five and vit-lite-7-4 are the papers' and timm's; vit-tiny-p4 is the benchmark's.
  const std::vector<std::pair<std::string, int64_t>> counts = {{"vit_tiny_patch16_224", 5717416},
                                                               {"vit_small_patch16_224", 22050664},
                                                               {"vit_base_patch16_224", 86567656},
                                                               {"vit_large_patch16_224", 304326632},
                                                               {"vit_huge_patch14_224", 632045800},
                                                               {"vit-lite-7-4", 3722250},
                                                               {"vit-tiny-p4", 5412810},
                                                               {"slides-vit", 4770570}};
  for (const auto& named : counts)
    CHECK_MESSAGE(models::vit_weights(models::vit_options(named.first)) == named.second,
                  named.first);
  CHECK(models::vit_names().size() == 8);
  CHECK_THROWS_WITH_AS(models::vit_options("vit_mini"), doctest::Contains("vit-lite-7-4"), Error);
  for (const char* name : {"vit_tiny_patch16_224", "vit_small_patch16_224", "vit-lite-7-4",
                           "vit-tiny-p4", "slides-vit"}) {
    Rng rng(0);
    const VitOptions o = models::vit_options(name);
    CHECK_MESSAGE(nn::num_parameters(Vit(o, rng)) == models::vit_weights(o), name);
  }
  for (const auto& form : forms()) {
    const auto& name = form.first;
    const auto& options = form.second;
    Rng rng(0);
    CHECK_MESSAGE(nn::num_parameters(Vit(options, rng)) == models::vit_weights(options), name);
  }
}

TEST_CASE("vit: names and their order are timm's") {
  Rng rng(0);
  std::vector<std::string> names,
      want = {"cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"};
  for (const char* i : {"0", "1"})
    for (const char* n : {"norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"})
      for (const char* kind : {"weight", "bias"})
        want.push_back(fmt::format("blocks.{}.{}.{}", i, n, kind));
  for (const char* n : {"norm.weight", "norm.bias", "head.weight", "head.bias"}) want.push_back(n);
  for (const auto& [name, t] : nn::state_dict(Vit(tiny(), rng))) names.push_back(name);
  CHECK(names == want);
}

TEST_CASE("vit: every form's loss depends on its parameters and on nothing else") {
  for (const auto& form : forms()) {
    const auto& name = form.first;
    const auto& options = form.second;
    CAPTURE(name);
    Rng rng(3);
    Vit model(with_dropouts(options), rng);
    Tensor logits = model(randn({4, 3, 8, 8}, rng));
    CHECK(logits.shape() == Shape{4, options.classes ? options.classes : options.dim});
    test::check_leaves(mean(square(logits)), model);
  }
}

TEST_CASE("vit: a batch of one equals a row of a batch; nothing is dropped in evaluation") {
  for (const auto& form : forms()) {
    const auto& name = form.first;
    const auto& options = form.second;
    CAPTURE(name);
    Rng rng(3);
    Vit model(with_dropouts(options), rng);
    Tensor x = randn({3, 3, 8, 8}, rng);
    CHECK_FALSE(test::same(model(x), model(x)));
    nn::set_training(model, false);
    Tensor all = model(x);
    CHECK(test::same(all, model(x)));
    for (int64_t i = 0; i < 3; ++i)
      CHECK(test::close(model(narrow(x, 0, i, 1)), narrow(all, 0, i, 1)));
  }
}

TEST_CASE("vit: a block that finishes the first tokens only gives the same values and gradients") {
  for (const auto& form : forms()) {
    const auto& name = form.first;
    const auto& o = form.second;
    CAPTURE(name);
    Rng rng(3);
    models::VitBlock a(o, 1, rng);
    nn::to(a, DType::f64);
    models::VitBlock b = a;
    Tensor x = randn({2, 5, 8}, rng, DType::f64);
    Tensor xa = x.clone().set_requires_grad(), xb = x.clone().set_requires_grad();
    Tensor ya = narrow(a(xa), 1, 0, 2), yb = b.first(xb, 2);
    CHECK(test::close(ya, yb, 1e-12, 1e-12));
    sum(square(ya)).backward();
    sum(square(yb)).backward();
    CHECK(test::close(xa.grad(), xb.grad(), 1e-12, 1e-12));
    NamedTensors pa = nn::named_parameters(a), pb = nn::named_parameters(b);
    for (size_t i = 0; i < pa.size(); ++i)
      CHECK_MESSAGE(test::close(pa[i].second.grad(), pb[i].second.grad(), 1e-12, 1e-12),
                    pa[i].first);
  }
}

TEST_CASE("vit: each dropout drops; stochastic depth of 0 is none") {
  Rng rng(3);
  Tensor x = randn({4, 3, 8, 8}, rng);
  auto model_of = [](const VitOptions& o) {
    Rng own(5);
    return Vit(o, own);
  };
  const Tensor plain = model_of(tiny())(x);
  auto changes = [&](auto&& set) {
    VitOptions o = tiny();
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
  VitOptions deep = tiny();
  deep.drop_path = 0.3;
  deep.layers = 4;
  const Vit model = model_of(deep);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(model.blocks[i].branch1.drop_path.p == doctest::Approx(0.1 * static_cast<double>(i)));
    CHECK(model.blocks[i].branch2.drop_path.p == model.blocks[i].branch1.drop_path.p);
  }
}

namespace {

// The part of a state whose names begin with `prefix`, without it.
NamedTensors part(const SafeTensors& file, const std::string& prefix) {
  NamedTensors out;
  for (const auto& [name, t] : file.tensors)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), t);
  return out;
}

std::string reference(const char* name) {
  return std::string(TERN_SOURCE_DIR) + "/tests/reference/vit/" + name;
}

NamedTensors without(NamedTensors state, const std::string& name) {
  std::erase_if(state, [&](const auto& t) { return t.first == name; });
  return state;
}

}  // namespace

TEST_CASE("vit: the states of timm's forms and of the slides load and give their logits") {
  const SafeTensors file = load_safetensors(reference("forms.safetensors"));
  const Tensor images = file.find("images");
  for (const char* form : {"average", "registers", "clip", "patches"}) {
    CAPTURE(form);
    const NamedTensors state = part(file, fmt::format("{}/param.", form));
    Rng rng(1);
    Vit model(models::vit_options_of(state, 2), rng);
    models::load_vit(model, state);
    CHECK(nn::num_parameters(model) == models::vit_weights(model.options));
    nn::set_training(model, false);
    CHECK(test::close(model(images), file.find(fmt::format("{}/output", form)), 1e-5, 1e-5));
  }
  VitOptions o = models::vit_options("slides-vit");
  o.patch = 8;
  o.dim = 16;
  o.layers = 2;
  Rng rng(1);
  Vit model(o, rng);
  models::load_vit(model, part(file, "slides/param."));
  nn::set_training(model, false);
  CHECK(test::close(model(images), file.find("slides/output"), 1e-5, 1e-5));
}

TEST_CASE("vit: options come back from the shapes of a state") {
  for (const auto& form : forms()) {
    const auto& name = form.first;
    const auto& o = form.second;
    CAPTURE(name);
    Rng rng(3);
    const NamedTensors state = nn::state_dict(Vit(o, rng));
    VitOptions found = models::vit_options_of(state, o.heads);
    if (o.positions == VitPositions::none) found.image = o.image;  // which no weight tells
    Vit back(found, rng);
    models::load_vit(back, state);
    CHECK(found.layers == o.layers);
    CHECK(found.patch == o.patch);
  }
  Rng rng(3);
  const NamedTensors state = nn::state_dict(Vit(tiny(), rng));
  CHECK_THROWS_WITH_AS(models::vit_options_of(state), doctest::Contains("8 channels"), Error);
  CHECK_THROWS_WITH_AS(models::vit_options_of(without(state, "blocks.0.mlp.fc1.weight"), 2),
                       doctest::Contains("no blocks.0.mlp.fc1.weight"), Error);
  CHECK_THROWS_WITH_AS(models::vit_options_of({}), doctest::Contains("patch_embed"), Error);
  for (const auto& named : models::vit_configurations()) {
    const VitOptions& o = named.second;
    NamedTensors sizes = {{"patch_embed.proj.weight", zeros({o.dim, 3, o.patch, o.patch})},
                          {"blocks.0.mlp.fc1.weight", zeros({4 * o.dim, 1})}};
    CHECK_MESSAGE(models::vit_options_of(sizes).heads == o.heads, named.first);
  }
}

TEST_CASE("vit: positions of another size of image are resized when a state loads") {
  Rng rng(3);
  VitOptions small = tiny(), large = tiny();
  large.image = 20;
  for (bool prefix : {true, false}) {
    small.positions_on_prefix = large.positions_on_prefix = prefix;
    const Vit from(small, rng);
    Vit to(large, rng);
    models::load_vit(to, nn::state_dict(from));
    CHECK(to.pos_embed.shape() == Shape{1, 25 + prefix, 8});
    const Tensor want = nn::resize_positions(squeeze(from.pos_embed, 0), 5, 5, {.prefix = prefix});
    CHECK(test::same(squeeze(to.pos_embed, 0), want));
    CHECK(test::same(to.blocks[1].fc2.weight, from.blocks[1].fc2.weight));
    models::load_vit(to, nn::state_dict(to));
    CHECK(test::same(squeeze(to.pos_embed, 0), want));
  }
  Vit model(small, rng);
  NamedTensors state = nn::state_dict(model);
  CHECK_THROWS_WITH_AS(models::load_vit(model, without(state, "norm.bias")),
                       doctest::Contains("norm.bias"), Error);
  for (auto& [name, t] : state)
    if (name == "pos_embed") t = zeros({1, 8, 8});
  CHECK_THROWS_WITH_AS(models::load_vit(model, state), doctest::Contains("pos_embed"), Error);
}

TEST_CASE("vit: attention maps and their rollout are probabilities") {
  for (const auto& form : forms()) {
    const auto& name = form.first;
    const auto& o = form.second;
    CAPTURE(name);
    Rng rng(3);
    Vit model(with_dropouts(o), rng);
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

TEST_CASE("vit: the weights of a block are softmax(q k / sqrt(D)) and make its context") {
  Rng rng(3);
  const models::VitBlock block(tiny(), 0, rng);
  const Tensor x = randn({2, 5, 8}, rng);
  Tensor weights;
  const Tensor with = block.first(x, 5, &weights);
  CHECK(test::close(with, block(x)));
  const Tensor qkv = reshape(block.attn.qkv(block.norm1(x)), {2, 5, 3, 2, 4});
  auto heads = [&](int64_t i) { return transpose(select(qkv, 2, i), 1, 2); };
  const Tensor scores = matmul(heads(0), transpose(heads(1), 2, 3)) / 2;
  CHECK(test::close(weights, softmax(scores, -1)));
}

TEST_CASE("vit: rollout multiplies the layers' means with the identity added") {
  Rng rng(3);
  std::vector<Tensor> attention;
  for (int i = 0; i < 3; ++i) attention.push_back(softmax(randn({2, 4, 5, 5}, rng), -1));
  Tensor want = eye(5);
  for (const Tensor& a : attention) want = matmul((mean(a, 1) + eye(5)) / 2, want);
  CHECK(test::close(models::attention_rollout(attention), want));
  // Nobody looks anywhere: every token is its own.
  CHECK(test::same(models::attention_rollout({zeros({1, 2, 3, 3})}), unsqueeze(eye(3), 0)));
  CHECK_THROWS_WITH_AS(models::attention_rollout({}), doctest::Contains("no layers"), Error);
  CHECK_THROWS_AS(models::attention_rollout({zeros({1, 2, 3, 4})}), Error);
  CHECK_THROWS_AS(models::attention_rollout({zeros({1, 2, 3, 3}), zeros({1, 2, 4, 4})}), Error);
}

TEST_CASE("vit: what it tells of itself") {
  Rng rng(3);
  VitOptions o = tiny();
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
  for (int64_t patch = 0; patch < 4; ++patch)  // of the class token's row, in reading order
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

TEST_CASE("vit: what cannot be made, or is no image of its size, is refused") {
  Rng rng(3);
  auto refused = [&](auto&& set, const char* text) {
    VitOptions o = tiny();
    set(o);
    CHECK_THROWS_WITH_AS(models::vit_weights(o), doctest::Contains(text), Error);
    CHECK_THROWS_WITH_AS(Vit(o, rng), doctest::Contains(text), Error);
  };
  refused([](VitOptions& o) { o.patch = 3; }, "patches of 3");
  refused([](VitOptions& o) { o.heads = 3; }, "3 heads");
  refused([](VitOptions& o) { o.layers = -1; }, "-1 layers");
  refused([](VitOptions& o) { o.class_token = false; }, "pool the average");
  refused([](VitOptions& o) { o.dim = 6, o.positions = VitPositions::sincos; }, "in fours");
  CHECK_THROWS_AS(Vit(tiny(), rng)(zeros({1, 3, 9, 8})), Error);
  CHECK_THROWS_AS(Vit(tiny(), rng)(zeros({3, 8, 8})), Error);
}
