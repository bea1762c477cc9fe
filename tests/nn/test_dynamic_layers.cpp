// Layers whose types are chosen at run time: AnyLayer, DynamicSequential and ModuleDict.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <filesystem>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/nn/nn.h"
#include "tern/optim/adam.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_dynamic_layers {
namespace {

using nn::AnyLayer, nn::DynamicSequential, nn::ModuleDict;

std::vector<std::string> names_of(const NamedTensors& named) {
  std::vector<std::string> names;
  for (const auto& entry : named) names.push_back(entry.first);
  return names;
}
using Names = std::vector<std::string>;

struct Twice {
  Tensor operator()(const Tensor& x) const { return x * 2; }
};

DynamicSequential network(Rng& rng) {
  DynamicSequential net;
  int64_t dim = 4;
  for (int64_t width : {6, 5}) {
    net.add(nn::Linear(dim, width, rng)).add(nn::BatchNorm1d(width)).add(nn::Relu());
    dim = width;
  }
  net.add(nn::Dropout(0.5, rng)).add("head", nn::Linear(dim, 2, rng));
  return net;
}

TEST_CASE("DynamicSequential: the same results as nn::Sequential with the same layers") {
  Rng rng(1), twin(1);
  DynamicSequential net{nn::Linear(4, 6, rng), nn::Tanh(), nn::Dropout(0.3, rng),
                        nn::Linear(6, 2, rng)};
  nn::Sequential fixed(nn::Linear(4, 6, twin), nn::Tanh(), nn::Dropout(0.3, twin),
                       nn::Linear(6, 2, twin));
  CHECK(names_of(nn::state_dict(net)) == names_of(nn::state_dict(fixed)));
  nn::load_state_dict(net, nn::state_dict(fixed));
  nn::load_generator_state(net, nn::generator_state(fixed));
  net.add([](const Tensor& x) { return x * 1; });
  const Tensor x = randn({3, 4}, rng);
  const Tensor y = net(x);
  CHECK(test::same(y, fixed(x)));  // drops the same elements
  test::check_leaves(sum(y), net);
  sum(y).backward();
  CHECK(net[0].as<nn::Linear>().weight.grad().defined());
}

TEST_CASE("DynamicSequential: names, indices, insertion and removal") {
  Rng rng(2);
  DynamicSequential net = network(rng);
  CHECK(net.size() == 8);
  CHECK(names_of(nn::named_parameters(net)) == Names{"0.weight", "0.bias", "1.weight", "1.bias",
                                                     "3.weight", "3.bias", "4.weight", "4.bias",
                                                     "head.weight", "head.bias"});
  CHECK(&net["head"] == &net[-1]);
  CHECK(&net["3"] == &net[3]);
  CHECK(net["head"].is<nn::Linear>());
  CHECK(parameter_name(net[-1].as<nn::Linear>().weight) == "head.weight");
  net.insert(0, nn::Flatten());
  CHECK(nn::named_parameters(net)[0].first == "1.weight");
  net.erase(0);
  net[2] = nn::Gelu();
  CHECK(net[2].is<nn::Gelu>());
  nn::set_training(net, false);
  CHECK_FALSE(net[1].as<nn::BatchNorm1d>().training);
  CHECK(DynamicSequential()(ones({2})).numel() == 2);
  net.clear();
  CHECK(net.empty());
}

TEST_CASE("DynamicSequential: copies own their weights; saved weights load again") {
  Rng rng(3);
  const DynamicSequential net = network(rng);
  DynamicSequential copy = net;
  nn::init::constant(copy[0].as<nn::Linear>().weight, 7);
  CHECK(net[0].as<nn::Linear>().weight.tensor().to_vector<float>()[0] != 7);
  const std::string path = std::filesystem::temp_directory_path() / "tern_dynamic.safetensors";
  nn::save_weights(path, net);
  nn::load_weights(path, copy);
  std::filesystem::remove(path);
  nn::set_training(copy, false);
  DynamicSequential still = net;
  nn::set_training(still, false);
  const Tensor x = randn({3, 4}, rng);
  CHECK(test::same(copy(x), still(x)));
  nn::to(copy, DType::f64);
  CHECK(copy(x.to(DType::f64)).dtype() == DType::f64);
}

TEST_CASE("DynamicSequential: nests as a layer, and contains other modules") {
  Rng rng(4);
  DynamicSequential inner{nn::Linear(3, 3, rng), nn::Tanh()};
  DynamicSequential outer;
  outer.add(nn::Linear(3, 3, rng)).add("inner", inner).add(Twice());
  CHECK(names_of(nn::named_parameters(outer)) ==
        Names{"0.weight", "0.bias", "inner.0.weight", "inner.0.bias"});
  nn::check_module(outer, {randn({3, 3}, rng)});
  nn::check_module(AnyLayer(nn::Conv2d(2, 3, 2, rng)), {randn({2, 2, 4, 4}, rng)});
  CHECK(fmt::format("{}", outer) == R"(DynamicSequential(
  (0): Linear(weight (3, 3), bias (3,)) 12
  (inner): DynamicSequential(
    (0): Linear(weight (3, 3), bias (3,)) 12
    (1): Tanh()
  ) 12
  (2): Twice()
) 24 parameters)");
}

TEST_CASE("DynamicSequential: errors name the missing layer or its type") {
  Rng rng(5);
  DynamicSequential net = network(rng);
  auto says = [](const char* words, const std::function<void()>& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(words), Error);
  };
  says("there is no 'tail'; there are: 0, 1", [&] { net["tail"]; });
  says("place 8 is out of range for 8 layers", [&] { net[8]; });
  says("place -9", [&] { net[-9]; });
  says("there is already a layer 'head'", [&] { net.add("head", nn::Relu()); });
  says("'a.b' cannot be a name", [&] { net.add("a.b", nn::Relu()); });
  says("'' cannot be a name", [&] { net.add("", nn::Relu()); });
  says("'3' is a number", [&] { net.add("3", nn::Relu()); });
  says("the layer is a Linear, not a Conv2d", [&] { net[0].as<nn::Conv2d>(); });
  AnyLayer moved = std::move(net[0]);
  says("was moved to another object", [&] { return net(ones({2, 4})); });
  CHECK(moved(ones({2, 4})).shape() == Shape{2, 6});
}

TEST_CASE("DynamicSequential: the example in the header learns") {
  const std::vector<int64_t> widths = {16, 8};
  Rng rng(0);
  DynamicSequential net;
  int64_t dim = 3;
  for (int64_t width : widths) {
    net.add(nn::Linear(dim, width, rng)).add(nn::Relu());
    dim = width;
  }
  net.add("head", nn::Linear(dim, 2, rng));
  optim::AdamW optimizer(nn::named_parameters(net), {.lr = 1e-2});
  const Tensor x = randn({64, 3}, rng), labels = gt(sum(x, 1), 0).to(DType::i64);
  std::vector<double> losses;
  for (int step = 0; step < 60; ++step) {
    const Tensor loss = cross_entropy(net(x), labels);
    losses.push_back(loss.item());
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  CHECK(losses.back() < 0.2 * losses.front());
}

// As when the best weights are put back into a model whose optimizer exists already.
TEST_CASE("AnyLayer: assignment writes into the weights that an optimizer holds") {
  Rng rng(8);
  DynamicSequential net{nn::Linear(3, 3, rng), Twice(), nn::Linear(3, 2, rng)};
  optim::AdamW optimizer(nn::named_parameters(net), {.lr = 0.1});
  const auto step = [&] {
    sum(net(ones({1, 3}))).backward();
    optimizer.step();
    nn::zero_grad(net);
  };
  const DynamicSequential best = net;
  step();
  for (int layer : {0, 2}) {
    net = best;
    const auto &now = net[layer].as<nn::Linear>(), &then = best[layer].as<nn::Linear>();
    CHECK(test::same(now.weight, then.weight));
    step();
    CHECK_FALSE(all_close(now.weight, then.weight));
    net[layer] = AnyLayer(then);  // of a temporary
    CHECK(test::same(now.bias, then.bias));
    step();
    CHECK_FALSE(all_close(now.bias, then.bias));
  }
  net[0] = Twice();  // its weights are gone
  sum(net(ones({1, 3}))).backward();
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("no longer uses the elements of '0."),
                       Error);
}

TEST_CASE("DynamicSequential, ModuleDict: removal leaves the weights of others in place") {
  Rng rng(9);
  DynamicSequential net{nn::Linear(2, 2, rng), nn::Linear(2, 2, rng)};
  const Tensor second = net[1].as<nn::Linear>().weight.own();
  net.erase(0);
  CHECK(net[0].as<nn::Linear>().weight.own().ref() == second.ref());
  ModuleDict<nn::Linear> heads;
  heads.add("a", nn::Linear(2, 2, rng));
  heads.add("b", nn::Linear(2, 2, rng));
  const Tensor b = heads["b"].weight.own();
  heads.erase("a");
  CHECK(heads["b"].weight.own().ref() == b.ref());
}

TEST_CASE("ModuleDict: modules of one type by name, in order") {
  Rng rng(6);
  ModuleDict<nn::Linear> heads;
  heads.add("wide", nn::Linear(3, 4, rng));
  CHECK(heads.add("a", nn::Linear(3, 1, rng)).weight.shape() == Shape{1, 3});
  CHECK(heads.names() == Names{"wide", "a"});
  CHECK(names_of(nn::named_parameters(heads)) ==
        Names{"wide.weight", "wide.bias", "a.weight", "a.bias"});
  CHECK(heads["wide"](ones({2, 3})).shape() == Shape{2, 4});
  CHECK(heads.contains("a"));
  CHECK_FALSE(heads.contains("b"));
  int64_t outputs = 0;
  for (const auto& [name, head] : heads) outputs += head.weight.size(0);
  CHECK(outputs == 5);
  ModuleDict<nn::Linear> copy = heads;
  nn::init::constant(copy["a"].weight, 0);
  CHECK(heads["a"].weight.tensor().to_vector<float>()[0] != 0);
  heads.erase("wide");
  CHECK(heads.size() == 1);
  CHECK_THROWS_WITH_AS(heads["wide"], doctest::Contains("there is no 'wide'; there are: a"), Error);
  CHECK_THROWS_WITH_AS(heads.erase("b"), doctest::Contains("there is no 'b'"), Error);
  CHECK_THROWS_WITH_AS(heads.add("a", nn::Linear(1, 1, rng)), doctest::Contains("there is already"),
                       Error);
  CHECK_THROWS_WITH_AS(heads.add("a.b", nn::Linear(1, 1, rng)), doctest::Contains("dot"), Error);
}

TEST_CASE("ModuleDict: layers of different types") {
  Rng rng(7);
  ModuleDict<> parts;
  parts.add("act", nn::Prelu());
  parts.add("conv", nn::Conv1d(2, 3, 2, rng));
  CHECK(names_of(nn::named_parameters(parts)) == Names{"act.weight", "conv.weight", "conv.bias"});
  auto call = [](const ModuleDict<>& m, const std::vector<Tensor>& x) {
    return m["conv"](m["act"](x[0]));
  };
  nn::check_module(parts, call, {randn({2, 2, 4}, rng)});
}

// Every use of a moved-from module is an error that names it. It can be assigned again.
template <class M>
void check_moved(M module, const char* name, const std::function<void(M&)>& use) {
  const std::string told = std::string(name) + ": it was moved away";
  const auto complains = [&](const std::function<void()>& fn) {
    CHECK_THROWS_WITH_AS(fn(), doctest::Contains(told.c_str()), Error);
  };
  M there = std::move(module);
  const M kept = there;
  use(there);
  complains([&] { use(module); });  // NOLINT: moved from
  complains([&] { nn::named_parameters(module); });
  complains([&] { nn::save_weights("none.safetensors", module); });
  complains([&] { M copy(module); });
  complains([&] { there = module; });
  use(there);
  module = kept;
  use(module);
  std::swap(module, there);
  use(module), use(there);
  std::vector<M> many;
  for (int i = 0; i < 5; ++i) many.push_back(kept);
  many.erase(many.begin());
  for (M& m : many) use(m);
}

TEST_CASE("containers of layers: using a moved-from container is an error") {
  Rng rng(11);
  const Tensor x = randn({2, 4}, rng);
  using Heads = ModuleDict<nn::Linear>;
  Heads heads;
  heads.add("class", nn::Linear(4, 3, rng));
  check_moved<DynamicSequential>(network(rng), "DynamicSequential",
                                 [&](DynamicSequential& net) { return net(x); });
  check_moved<DynamicSequential>(network(rng), "DynamicSequential",
                                 [](DynamicSequential& net) { net.add(Twice()); });
  check_moved<Heads>(heads, "ModuleDict", [&](Heads& m) { return m["class"](x); });
  check_moved<Heads>(heads, "ModuleDict", [](Heads& m) { m.begin(); });
  check_moved<nn::Lstm>(nn::Lstm(4, 3, rng), "recurrent network",
                        [&](nn::Lstm& lstm) { lstm(unsqueeze(x, 1)); });
  check_moved<nn::Gru>(nn::Gru(4, 3, rng), "recurrent network", [](nn::Gru& gru) { gru.zeros(2); });

  DynamicSequential net = network(rng), other = std::move(net);
  net.clear();  // NOLINT: now it is an empty sequence
  CHECK(test::same(net(x), x));
}

TEST_CASE("recurrent layers: a state of zeros equals an undefined state") {
  Rng rng(8);
  const Tensor x = randn({3, 4, 2}, rng);
  const nn::RnnOptions options{.layers = 2, .bidirectional = true};
  const nn::Lstm lstm(2, 5, rng, options);
  const nn::Gru gru(2, 5, rng, options);
  const nn::Rnn rnn(2, 5, rng);
  CHECK(lstm.zeros(3).h.shape() == Shape{4, 3, 5});
  CHECK(lstm.zeros(3).c.shape() == Shape{4, 3, 5});
  CHECK(test::same(lstm(x, {.state = lstm.zeros(3)}).output, lstm(x).output));
  CHECK_FALSE(gru.zeros(3).c.defined());
  CHECK(test::same(gru(x, {.state = gru.zeros(3)}).output, gru(x).output));
  CHECK(test::same(rnn(x, {.state = rnn.zeros(3)}).output, rnn(x).output));
  CHECK(rnn.zeros(0).h.shape() == Shape{1, 0, 5});
  nn::Lstm wide = lstm;
  nn::to(wide, DType::f64);
  CHECK(wide.zeros(1).h.dtype() == DType::f64);
  const nn::LstmCell cell(2, 5, rng);
  CHECK(test::same(cell(select(x, 1, 0), cell.zeros(3)).c, cell(select(x, 1, 0)).c));
  CHECK(nn::GruCell(2, 5, rng).zeros(3).shape() == Shape{3, 5});
  CHECK(nn::RnnCell(2, 5, rng).zeros(3).shape() == Shape{3, 5});
  CHECK_THROWS_WITH_AS(lstm.zeros(-1),
                       doctest::Contains("the batch size must not be negative, got -1"), Error);
}

}  // namespace
}  // namespace tern::test_dynamic_layers
