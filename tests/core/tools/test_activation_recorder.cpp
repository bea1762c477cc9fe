// Recordings of layer outputs and gradients, and the first layer at which two recordings differ.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "tern/core/tools/activation_recorder.h"
#include "tern/core/tools/recordings.h"
#include "tern/models/gmlp.h"
#include "tern/models/transformer.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test::test_activation_recorder {
namespace {

struct Net {
  nn::Linear up;
  nn::LayerNorm norm;
  std::vector<nn::Linear> down;
  explicit Net(Rng& rng) : up(4, 6, rng), norm({6}) {
    down.emplace_back(6, 6, rng);
    down.emplace_back(6, 2, rng);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor h = norm(up(x, {.activation = Activation::gelu}));
    h = down[0](h, {.residual = h});
    h = down[0](h);
    return down[1](h);
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("norm", m.norm);
    visit("down", m.down);
  }
};

struct Both {
  nn::TransformerEncoderLayer layer;
  nn::Lstm lstm;
  nn::Gru gru;
  static void fields(auto& m, auto&& visit) {
    visit("layer", m.layer);
    visit("lstm", m.lstm);
    visit("gru", m.gru);
  }
};

/// Layers that compute with views of their parameters.
struct Views {
  nn::GroupNorm norm;
  nn::Prelu bent;
  nn::LearnedPositions placed;
  explicit Views(Rng& rng) : norm(2, 4), bent(4), placed(3, 5, rng) {}
  Tensor operator()(const Tensor& x) const { return placed(bent(norm(x))); }
  static void fields(auto& m, auto&& visit) {
    visit("norm", m.norm);
    visit("bent", m.bent);
    visit("placed", m.placed);
  }
};

SafeTensors record(const auto& net, const Tensor& x) {
  const NamedTensors parameters = nn::named_parameters(net);
  nn::zero_grad(net);
  ActivationRecorder recorder;
  backward(sum(net(x)));
  return recorder.recording(parameters);
}

std::vector<std::string> names(const SafeTensors& file) {
  std::vector<std::string> out;
  for (const auto& [name, t] : file.tensors) out.push_back(name);
  return out;
}

const Tensor& entry(const SafeTensors& file, const std::string& name) {
  for (const auto& [n, t] : file.tensors)
    if (n == name) return t;
  FAIL("no entry ", name);
  return file.tensors[0].second;
}

}  // namespace

TEST_CASE("activation recorder: layers whose ops have several results") {
  Rng rng(0);
  const Both net{
      {{.dim = 4, .heads = 2, .ffn = 6, .norm_first = true}, rng}, {4, 3, rng}, {3, 3, rng}};
  const nn::EvalScope evaluating(net);
  const Tensor x = randn({2, 5, 4}, rng);
  nn::named_parameters(net);
  ActivationRecorder recorder;
  const nn::RnnOutput cells = net.lstm(net.layer(x));
  const Tensor y = net.gru(cells.output).output;
  backward(sum(square(y)) + sum(cells.state.c));
  const SafeTensors file = recorder.recording();
  const auto of = [&](const std::string& kind, const std::string& module) {
    for (const auto& [name, t] : file.tensors)
      if (name.starts_with(kind) && name.ends_with("/" + module)) return t;
    FAIL("no ", kind, " of ", module);
    return Tensor();
  };
  // With norm_first the sum and its norm are one op; the layer is the norm.
  const Tensor attended = x + net.layer.self_attn(net.layer.residual1.norm(x));
  CHECK(close(of("output", "layer.norm2"), net.layer.residual2.norm(attended)));
  const auto time_first = [](const Tensor& t) { return transpose(t, 0, 1); };  // as the op has it
  CHECK(close(of("output", "lstm"), time_first(cells.output)));
  CHECK(close(of("output", "gru"), time_first(y)));
  CHECK(close(of("gradient", "gru"), time_first(2 * y)));
  recorder.stop();
  const Tensor read = cells.output.detach().set_requires_grad(true);
  const Tensor dread = grad({sum(square(net.gru(read).output))}, {read})[0];
  CHECK(close(of("gradient", "lstm"), time_first(dread)));  // not that of the cells
}

TEST_CASE("activation recorder: layers that compute with views of their parameters") {
  Rng rng(0);
  const Views net(rng);
  const Tensor x = randn({2, 4, 3, 5}, rng);
  const SafeTensors file = record(net, x);
  const std::vector<std::string> found = names(file);
  REQUIRE(found.size() >= 6);
  CHECK(std::vector(found.begin(), found.begin() + 6) ==
        std::vector<std::string>{"output/000000/norm", "output/000001/bent", "output/000002/placed",
                                 "gradient/000000/placed", "gradient/000001/bent",
                                 "gradient/000002/norm"});
  CHECK(close(entry(file, "output/000000/norm"), net.norm(x)));
  CHECK(close(entry(file, "output/000001/bent"), net.bent(net.norm(x))));
  CHECK(close(entry(file, "output/000002/placed"), net(x)));
  CHECK(close(sum(entry(file, "gradient/000002/norm"), {0, 2, 3}), net.norm.bias.grad()));
}

TEST_CASE("activation recorder: the gradients of a norm that is computed with a sum, twice") {
  Rng rng(0);
  const nn::TransformerEncoderLayer layer({.dim = 4, .heads = 2, .ffn = 6, .norm_first = true},
                                          rng);
  const nn::EvalScope evaluating(layer);
  nn::named_parameters(layer);
  ActivationRecorder recorder;
  backward(sum(square(layer(layer(randn({2, 5, 4}, rng))))));
  std::vector<Tensor> gradients;
  for (const auto& [name, t] : recorder.recording().tensors)
    if (name.starts_with("gradient") && name.ends_with("norm2")) gradients.push_back(t);
  REQUIRE(gradients.size() == 2);
  // bias is added last, so its gradient is the sum of both.
  const Tensor both = sum(gradients[0] + gradients[1], {0, 1});
  CHECK(close(both, layer.residual2.norm.bias.grad()));
}

TEST_CASE("activation recorder: gradients before a call without one are left out") {
  Rng rng(0);
  const nn::Linear layer(4, 4, rng);
  const Tensor x = randn({3, 4}, rng);
  nn::named_parameters(layer);
  ActivationRecorder recorder;  // the later call has an activation, whose gradient is another
  backward(sum(layer(layer(x), {.activation = Activation::gelu})));
  CHECK(names(recorder.recording()) ==
        std::vector<std::string>{"output/000000/", "output/000001/"});
}

TEST_CASE("activation recorder: outputs, their gradients and those of parameters, in order") {
  Rng rng(0);
  const Net net(rng);
  const Tensor x = randn({3, 4}, rng);
  const SafeTensors file = record(net, x);
  CHECK(names(file) ==
        std::vector<std::string>{
            "output/000000/up", "output/000001/norm", "output/000002/down.0",
            "output/000003/down.0", "output/000004/down.1",
            // Only the last two calls and the norm; the others are fused with another op.
            "gradient/000000/down.1", "gradient/000001/down.0", "gradient/000002/norm",
            "weight/000000/down.1.bias", "weight/000001/down.1.weight", "weight/000002/down.0.bias",
            "weight/000003/down.0.weight", "weight/000004/norm.bias", "weight/000005/norm.weight",
            "weight/000006/up.bias", "weight/000007/up.weight"});
  CHECK(close(entry(file, "output/000000/up"), net.up(x)));  // before the GELU
  const Tensor normed = net.norm(gelu(net.up(x)));
  CHECK(close(entry(file, "output/000001/norm"), normed));
  CHECK(close(entry(file, "output/000002/down.0"), net.down[0](normed)));  // without the residual
  CHECK(same(entry(file, "gradient/000000/down.1"), ones({3, 2})));
  CHECK(close(entry(file, "gradient/000001/down.0"), matmul(ones({3, 2}), net.down[1].weight)));
  CHECK(same(entry(file, "weight/000007/up.weight"), net.up.weight.grad()));
}

TEST_CASE("activation recorder: records only layers, and stops") {
  Rng rng(0);
  models::Gmlp model({.dim = 16, .layers = 2, .fc_dim = 8}, rng);
  nn::EvalScope evaluating(model);
  nn::named_parameters(model);
  NoGradGuard no_grad;
  ActivationRecorder recorder;
  static_cast<void>(model(zeros({2, 3, 32, 32})));
  const size_t count = recorder.recording().tensors.size();
  recorder.stop();
  static_cast<void>(model(zeros({2, 3, 32, 32})));
  const SafeTensors file = recorder.recording();
  CHECK(file.tensors.size() == count);
  std::string all;
  for (const std::string& name : names(file)) all += name + "\n";
  for (const char* layer :
       {"/model.patch_embed.proj\n", "/model.blocks.layers.1.sgu.norm\n",
        "/model.blocks.layers.0.channel_proj_U.0\n", "/model.norm\n", "/head\n"})
    CHECK_MESSAGE(contains(all, layer), layer, " in ", all);
  CHECK_FALSE(contains(all, "/model\n"));  // has only the class token
  CHECK_FALSE(contains(all, "sgu\n"));     // its norm has its own entry
}

TEST_CASE("first divergence: the layer that was changed, and by how much") {
  Rng rng(0);
  const Net net(rng);
  const Tensor x = randn({3, 4}, rng);
  const SafeTensors a = record(net, x);
  CHECK(first_divergence(a, a).first() == nullptr);
  Net other = net;
  {
    NoGradGuard no_grad;
    add_(select(other.norm.bias.tensor(), 0, 5), scalar(0.25));
  }
  const Divergence d = first_divergence(a, record(other, x));
  REQUIRE(d.first() != nullptr);
  CHECK(d.first()->kind == "output");
  CHECK(d.first()->module == "norm");
  CHECK(d.first()->max_abs == doctest::Approx(0.25));
  CHECK(d.first()->at[1] == 5);
  CHECK(d.first()->second - d.first()->first == doctest::Approx(0.25));
  CHECK(d.compared[0].module == "up");
  CHECK_FALSE(d.compared[0].differs);
  CHECK(contains(d.report(), "first: output of norm (3, 6): largest difference 0.25"));
  CHECK(contains(d.report(), "before it: output of up (3, 6): largest difference 0"));
  CHECK(first_divergence(a, record(other, x), {.atol = 10}).first() == nullptr);
}

TEST_CASE("first divergence: only a gradient differs, read from files") {
  Rng rng(0);
  const Net net(rng);
  SafeTensors a = record(net, randn({3, 4}, rng)), b = a;
  for (auto& [name, t] : b.tensors)
    if (name == "gradient/000001/down.0") t = t * 1.5;
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("tern_recordings_{}_", getpid()));
  save_safetensors(folder + "a", a);
  save_safetensors(folder + "b", b);
  const Divergence d =
      first_divergence(load_safetensors(folder + "a"), load_safetensors(folder + "b"));
  REQUIRE(d.first() != nullptr);
  CHECK(contains(d.first()->line(), "gradient of the output of down.0 (3, 6): largest difference"));
  CHECK(d.first()->relative == doctest::Approx(1. / 3));
  for (const char* file : {"a", "b"}) std::filesystem::remove(folder + file);
}

TEST_CASE("first divergence: matching by module, call and joined axes; unmatched entries") {
  const Tensor ones23 = ones({2, 3}), ones6 = ones({6}), ones213 = ones({2, 1, 3});
  const SafeTensors a{{{"output/000009/late", ones23},
                       {"output/000001/up", ones23},
                       {"output/000002/up", ones23 * 2},
                       {"output/000003/mine", ones23},
                       {"output/000004/flat", ones23}},
                      {}};
  const SafeTensors b{{{"output/000000/late", ones213},
                       {"output/000001/up", ones23},
                       {"output/000005/up", ones23 * 3},
                       {"output/000006/flat", ones6},
                       {"weight/000000/theirs", ones6}},
                      {}};
  const Divergence d = first_divergence(a, b);
  REQUIRE(d.compared.size() == 3);
  CHECK(d.compared[2].module == "late");  // in the order of the first recording
  CHECK_FALSE(d.compared[2].differs);
  CHECK(d.first() == &d.compared[1]);
  CHECK(d.first()->call == 2);
  CHECK(contains(d.first()->line(), "output of up (call 2) (2, 3)"));
  CHECK(d.only_first == std::vector<std::string>{"output of mine"});
  CHECK(d.only_second == std::vector<std::string>{"gradient of theirs"});
  CHECK(d.other_shapes == std::vector<std::string>{"output of flat (2, 3) and (6,)"});
}

TEST_CASE("first divergence: NaN against a number; files that are not recordings") {
  auto one = [](double v) { return SafeTensors{{{"output/0/x", full({2}, v)}}, {}}; };
  CHECK(first_divergence(one(1), one(test::kNan)).first()->max_abs == test::kInf);
  CHECK(first_divergence(one(test::kNan), one(test::kNan)).first() == nullptr);
  const SafeTensors empty{{{"output/0/x", zeros({0, 3})}}, {}};
  CHECK(first_divergence(empty, empty).first() == nullptr);
  for (const char* name : {"up.weight", "output/x/up", "output/1", "outputs/1/up"}) {
    const SafeTensors wrong{{{name, ones({2})}}, {}};
    CHECK_THROWS_AS(first_divergence(wrong, one(1)), IoError);
  }
  const SafeTensors other{{{"output/0/y", ones({2})}}, {}};
  CHECK_THROWS_WITH_AS(first_divergence(one(1), other), doctest::Contains("no layer in common"),
                       Error);
}

}  // namespace tern::test::test_activation_recorder
