// The gMLP for images: numbers of weights, names of both kinds, blocks against a plain FFN,
// resuming of training, and heatmaps.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gmlp.h"
#include "tern/optim/optim.h"

namespace tern::test_gmlp {
using models::Gmlp, models::GmlpOptions;

namespace {

GmlpOptions tiny() {
  GmlpOptions o;
  o.image = 8;
  o.patch = 4;
  o.dim = 8;
  o.layers = 2;
  o.fc_dim = 6;
  return o;
}

// One form for every option that changes the graph.
std::vector<std::pair<std::string, GmlpOptions>> forms() {
  std::vector<std::pair<std::string, GmlpOptions>> out = {{"post", tiny()}};
  auto form = [&](const char* name) -> GmlpOptions& {
    out.emplace_back(name, tiny());
    return out.back().second;
  };
  form("heads").gate.heads = 4;
  GmlpOptions& causal = form("causal");
  causal.gate.causal = true;
  causal.class_token = false;
  form("toeplitz").gate.matrix = nn::SpatialMatrix::toeplitz;
  form("unsplit").gate.split = false;
  form("additive").gate.gate = nn::Gate::additive;
  form("linear").gate = {.gate = nn::Gate::linear, .split = false};
  form("attention").attention_dim = 4;
  form("stem").stem = {{4, 1}, {6, 2}};
  GmlpOptions& paper = form("paper");
  paper.class_token = paper.positions = paper.output_gelu = false;
  paper.fc_dim = 0;
  paper.drop_path = 0.2;
  paper.gate.weight_bound = 1e-6;
  return out;
}

std::vector<std::string> names_of_leaves(const Tensor& loss, const NamedTensors& parameters) {
  std::vector<std::string> names;
  for (const Tensor& leaf : leaves(loss)) {
    auto it = std::find_if(parameters.begin(), parameters.end(),
                           [&](const auto& p) { return p.second.ref() == leaf.ref(); });
    names.push_back(it == parameters.end() ? "?" : it->first);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

}  // namespace

TEST_CASE("gmlp: weights of the configurations") {
  // The first two and timm's are the reference's numbers. The others are counted from the shapes.
  const std::vector<std::pair<std::string, int64_t>> counts = {
      {"gmlp-4m", 4979360},       {"gmlp-51m", 50907290},     {"gmlp-4m-heads4", 4982114},
      {"gmlp-small", 101008},     {"gmlp-stem", 1258890},     {"gmlp-ti-p4", 4613898},
      {"gmlp_ti16_224", 5867328}, {"gmlp_s16_224", 19422656}, {"gmlp_b16_224", 73075392}};
  std::vector<std::string> names;
  for (const auto& entry : counts) {
    CHECK_MESSAGE(models::gmlp_weights(models::gmlp_options(entry.first)) == entry.second,
                  entry.first);
    names.push_back(entry.first);
    if (entry.second > 10000000) continue;  // test_gmlp_forms checks gmlp_weights
    Rng rng(0);
    CHECK(nn::num_parameters(Gmlp(models::gmlp_options(entry.first), rng)) == entry.second);
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
  for (const auto& [name, t] : nn::state_dict(Gmlp(tiny(), rng))) names.push_back(name);
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
  for (const auto& form : forms()) {
    GmlpOptions o = form.second;
    Rng rng(3), same(3), data(4);
    const Gmlp post(o, rng);
    o.naming = models::GmlpNaming::timm;
    const Gmlp timm(o, same);
    const Tensor x = randn({2, 3, 8, 8}, data);
    CHECK_MESSAGE(values(post(x)) == values(timm(x)), form.first);
    CHECK(nn::named_parameters(post).size() == nn::named_parameters(timm).size());
  }
}

TEST_CASE("gmlp: the loss depends on all parameters and on nothing else, in every form") {
  for (const auto& form : forms()) {
    const auto& name = form.first;
    const auto& options = form.second;
    Rng rng(3);
    Gmlp model(options, rng);
    Tensor logits = model(randn({4, 3, 8, 8}, rng));
    CHECK(logits.shape() == Shape{4, 10});
    Tensor loss = cross_entropy(logits, tensor<int64_t>({1, 0, 9, 3}, {4}));
    std::vector<std::string> wanted;
    for (const auto& [n, t] : nn::named_parameters(model)) wanted.push_back(n);
    std::sort(wanted.begin(), wanted.end());
    CHECK_MESSAGE(names_of_leaves(loss, nn::named_parameters(model)) == wanted, name);
    optim::AdamW optimizer(nn::named_parameters(model));
    optim::check_training_graph(loss, nn::named_parameters(model), optimizer);
    loss.backward();
    optimizer.step();
  }
}

TEST_CASE("gmlp: a fresh block with W = 0 and b = 1 is a plain FFN") {
  Rng rng(3);
  GmlpOptions o = tiny();
  o.gate.weight_bound = 0;
  models::GmlpBlock block(o.block(), 5, 0, rng);
  Tensor x = randn({2, 5, 8}, rng);
  // Only the first half of U's channels remains: u * (0 + 1).
  Tensor u = narrow(block.channel_proj_u.weight, 0, 0, 16);
  Tensor hidden = gelu(linear(block.norm(x), u, narrow(block.channel_proj_u.bias, 0, 0, 16)));
  Tensor want = x + gelu(linear(hidden, block.channel_proj_v.weight, block.channel_proj_v.bias));
  CHECK(all_close(block(x), want, 1e-5, 1e-6));
}

TEST_CASE("gmlp: computing only a block's first tokens gives the same values and gradients") {
  for (const auto& form : forms()) {
    const auto& name = form.first;
    const auto& options = form.second;
    Rng rng(3);
    GmlpOptions o = options;
    o.drop_path = 0;
    models::GmlpBlock a(o.block(), 5, 0, rng);
    nn::to(a, DType::f64);
    models::GmlpBlock b = a;
    Tensor x = randn({2, 5, 8}, rng, DType::f64);
    Tensor xa = x.clone().set_requires_grad(), xb = x.clone().set_requires_grad();
    Tensor ya = narrow(a(xa), 1, 0, 2), yb = b.first(xb, 2);
    CHECK_MESSAGE(all_close(ya, yb, 1e-12, 1e-12), name);
    sum(square(ya)).backward();
    sum(square(yb)).backward();
    CHECK_MESSAGE(all_close(xa.grad(), xb.grad(), 1e-12, 1e-12), name);
    NamedTensors pa = nn::named_parameters(a), pb = nn::named_parameters(b);
    for (size_t i = 0; i < pa.size(); ++i)
      CHECK_MESSAGE(all_close(pa[i].second.grad(), pb[i].second.grad(), 1e-12, 1e-12), name, " ",
                    pa[i].first);
  }
}

TEST_CASE("gmlp: a batch of one equals a row of a batch; dropout is off in evaluation") {
  for (const auto& form : forms()) {
    const auto& name = form.first;
    const auto& options = form.second;
    Rng rng(3);
    Gmlp model(options, rng);
    nn::set_training(model, false);
    Tensor x = randn({3, 3, 8, 8}, rng);
    Tensor all = model(x);
    CHECK(values(all) == values(model(x)));
    for (int64_t i = 0; i < 3; ++i)
      CHECK_MESSAGE(all_close(model(narrow(x, 0, i, 1)), narrow(all, 0, i, 1), 1e-5, 1e-6), name);
  }
}

TEST_CASE("gmlp: training resumes exactly from weights, optimizer and generators") {
  Rng rng(3);
  GmlpOptions o = tiny();
  Tensor x = randn({4, 3, 8, 8}, rng), target = tensor<int64_t>({1, 0, 9, 3}, {4});
  auto step = [&](Gmlp& model, optim::AdamW& optimizer) {
    Tensor loss = cross_entropy(model(x), target);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss.item();
  };
  Gmlp a(o, rng), b(o, rng);
  optim::AdamW opt_a(nn::named_parameters(a), {.lr = 0.01});
  optim::AdamW opt_b(nn::named_parameters(b), {.lr = 0.01});
  for (int i = 0; i < 3; ++i) step(a, opt_a);
  nn::load_state_dict(b, nn::state_dict(a));
  nn::load_generator_state(b, nn::generator_state(a));
  opt_b.load_state_dict(opt_a.state_dict());
  for (int i = 0; i < 3; ++i) CHECK(step(a, opt_a) == step(b, opt_b));
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
  CHECK(models::Gmlp(models::gmlp_options("gmlp-stem"), rng).patch_size() == 4);
}

TEST_CASE("gmlp: spatial matrices; invalid options and images are errors") {
  Rng rng(3);
  GmlpOptions o = tiny();
  o.gate.heads = 4;
  std::vector<Tensor> w = Gmlp(o, rng).spatial_weights();
  CHECK(w.size() == 2);
  CHECK(w[0].shape() == Shape{4, 5, 5});
  CHECK_FALSE(w[0].requires_grad());
  CHECK_THROWS_AS(Gmlp(o, rng)(zeros({1, 3, 9, 8})), Error);
  CHECK_THROWS_AS(Gmlp(o, rng)(zeros({3, 8, 8})), Error);
  o.patch = 3;
  CHECK_THROWS_AS(Gmlp(o, rng), Error);
  GmlpOptions blind = tiny();
  blind.gate.causal = true;  // the class token, which is classified, would see nothing
  CHECK_THROWS_WITH_AS(Gmlp(blind, rng), doctest::Contains(".class_token = false"), Error);
  GmlpOptions negative = tiny();
  negative.attention_dim = -4;
  CHECK_THROWS_AS(Gmlp(negative, rng), Error);
}

}  // namespace tern::test_gmlp
