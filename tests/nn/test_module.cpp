// Modules: the walk over every kind of field, values and copies, state_dict and files, training
// mode, generators, tied parameters, and conversion.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/nn/nn.h"

namespace tern::test_module {

namespace {

struct Mlp {
  nn::Linear up, down;
  nn::Dropout dropout;
  explicit Mlp(Rng& rng) : up(3, 4, rng), down(4, 2, rng), dropout(0.5, rng) {}
  Tensor operator()(const Tensor& x) const { return down(dropout(tanh(up(x)))); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("down", m.down);
    visit("dropout", m.dropout);
  }
};

// Every kind of field that the walk knows.
struct Everything {
  nn::Parameter weight{ones({2})};
  nn::Parameter none;
  nn::Buffer table{arange(0, 3)};
  std::optional<nn::Linear> absent, present;
  std::vector<nn::Linear> list;
  std::array<nn::LayerNorm, 2> pair{nn::LayerNorm(1), nn::LayerNorm(2)};
  std::variant<nn::LayerNorm, nn::RmsNorm> either{nn::RmsNorm(5)};
  std::unique_ptr<nn::BatchNorm2d> owned = std::make_unique<nn::BatchNorm2d>(3);
  nn::Sequential<nn::Linear, nn::Relu, nn::Dropout> stack;
  nn::Sequential<nn::RmsNorm> flat{nn::RmsNorm(7)};
  explicit Everything(Rng& rng)
      : stack(nn::Linear(1, 1, rng, nn::Bias::no), nn::Relu(), nn::Dropout(0.1, rng)) {
    present.emplace(2, 1, rng);
    for (int i = 0; i < 2; ++i) list.emplace_back(1, 1, rng, nn::Bias::no);
  }
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("none", m.none);
    visit("table", m.table);
    visit("absent", m.absent);
    visit("present", m.present);
    visit("list", m.list);
    visit("pair", m.pair);
    visit("either", m.either);
    visit("owned", m.owned);
    visit("stack", m.stack);
    visit("", m.flat);
  }
};

// An embedding whose table is also the output's weight.
struct Tied {
  nn::Embedding embed;
  explicit Tied(Rng& rng) : embed(4, 3, rng) {}
  static void fields(auto& m, auto&& visit) {
    visit("embed", m.embed);
    visit("generator.weight", m.embed.weight);
  }
};

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> out;
  for (const auto& [name, t] : tensors) out.push_back(name);
  return out;
}

Tensor find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [n, t] : tensors)
    if (n == name) return t;
  return {};
}

using Strings = std::vector<std::string>;
using Floats = std::vector<float>;

Floats values(const Tensor& t) { return t.to_vector<float>(); }

/// Its `fields` lack the dropout.
struct Forgetful {
  nn::Linear body;
  nn::Dropout dropout;
  Tensor operator()(const Tensor& x) const { return dropout(body(x)); }
  static void fields(auto& m, auto&& visit) { visit("body", m.body); }
};

}  // namespace

TEST_CASE("module: a ModuleRef is a module") {
  Rng rng(1);
  nn::TransformerEncoderLayer layer({.dim = 8, .heads = 2, .ffn = 12}, rng);
  nn::ModuleRef ref = layer;
  const NamedTensors a = nn::state_dict(layer), b = nn::state_dict(ref);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i].first == b[i].first);
  CHECK(nn::num_parameters(ref) == nn::num_parameters(layer));
  CHECK(nn::generators(ref) == nn::generators(layer));
}

TEST_CASE("module: the walk names every kind of field, in order") {
  Rng rng(1);
  Everything m(rng);
  CHECK(names(nn::named_parameters(m)) ==
        Strings{"weight", "present.weight", "present.bias", "list.0.weight", "list.1.weight",
                "pair.0.weight", "pair.0.bias", "pair.1.weight", "pair.1.bias", "either.weight",
                "owned.weight", "owned.bias", "stack.0.weight", "0.weight"});
  CHECK(names(nn::named_buffers(m)) ==
        Strings{"table", "owned.running_mean", "owned.running_var", "owned.num_batches_tracked"});
  CHECK(names(nn::generator_state(m)) == Strings{"stack.2.rng"});
  CHECK(nn::state_dict(m).size() == 14 + 4);
  CHECK(nn::num_parameters(m) == 2 + 3 + 2 + 2 + 4 + 5 + 6 + 1 + 7);
}

namespace {

struct Clash {
  nn::LayerNorm a{2}, b{2};
  static void fields(auto& m, auto&& visit) {
    visit("norm", m.a);
    visit("norm", m.b);
  }
};

}  // namespace

TEST_CASE("module: two fields with the same name are an error") {
  CHECK_THROWS_WITH_AS(nn::named_parameters(Clash()), "module: two fields are called 'norm.weight'",
                       Error);
}

TEST_CASE("module: parameters are values") {
  Rng rng(1);
  Mlp a(rng);
  Mlp b = a;
  CHECK(values(b.up.weight) == values(a.up.weight));
  CHECK(b.up.weight.tensor().requires_grad());
  {
    NoGradGuard no_grad;
    fill_(b.up.weight, 7);
  }
  CHECK(values(a.up.weight)[0] != 7);

  // Assignment writes into the existing elements: an older handle sees it.
  Tensor handle = a.up.weight;
  a = b;
  CHECK(values(handle) == Floats(12, 7.0f));
  a = Mlp(rng);
  CHECK(values(handle) == values(a.up.weight));
  CHECK(values(handle)[0] != 7);
  a.up.bias = full({4}, 3);
  CHECK(values(a.up.bias) == Floats(4, 3.0f));
  CHECK_THROWS_AS(a.up.bias = full({5}, 3), Error);

  // Assignment of another shape takes new elements; a move takes the elements along.
  nn::Parameter p(ones({2})), q(zeros({3}));
  Tensor before = p;
  p = q;
  CHECK(values(p) == Floats(3, 0.0f));
  CHECK(values(before) == Floats(2, 1.0f));
  nn::Parameter moved = std::move(q);
  CHECK_FALSE(q.defined());
  CHECK(moved.tensor().requires_grad());
  std::swap(moved, p);
  CHECK((p.defined() && moved.defined()));
}

TEST_CASE("module: a backward pass reaches the parameters, zero_grad clears them") {
  Rng rng(1);
  Mlp m(rng);
  sum(m(ones({5, 3}))).backward();
  for (const auto& p : nn::named_parameters(m)) CHECK_MESSAGE(p.second.grad().defined(), p.first);
  nn::zero_grad(m);
  for (const Tensor& t : nn::parameters(m)) CHECK_FALSE(t.grad().defined());
  nn::set_requires_grad(m, false);
  CHECK_FALSE(m(ones({5, 3})).requires_grad());
  nn::set_requires_grad(m, true);
  CHECK(m(ones({5, 3})).requires_grad());
}

TEST_CASE("module: training and evaluation") {
  Rng rng(1);
  Mlp m(rng);
  Tensor x = ones({8, 3});
  nn::set_training(m, false);
  CHECK_FALSE(m.dropout.training);
  CHECK(values(m(x)) == values(m(x)));
  nn::set_training(m);
  CHECK(values(m(x)) != values(m(x)));
}

TEST_CASE("module: assignment leaves the mode") {
  Rng rng(1);
  Mlp m(rng), best(rng);
  {
    const nn::EvalScope evaluating(m);
    best = m;
  }
  CHECK(best.dropout.training);
  nn::set_training(best, false);
  m = best;
  CHECK(m.dropout.training);
  m = Mlp(best);  // a model that a function returns, in evaluation
  CHECK_FALSE(m.dropout.training);
}

TEST_CASE("module: a layer that no `fields` lists cannot train in an evaluation") {
  Rng rng(1);
  const Forgetful m{{3, 2, rng}, {0.5, rng}};
  CHECK_NOTHROW(static_cast<void>(m(ones({1, 3}))));
  const nn::EvalScope evaluating(m);
  CHECK_THROWS_WITH_AS(static_cast<void>(m(ones({1, 3}))), doctest::Contains("list it in `fields`"),
                       Error);
  Mlp other(rng);  // another model's layers may be in training
  nn::set_training(other);
  CHECK_NOTHROW(static_cast<void>(other(ones({1, 3}))));
}

TEST_CASE("module: dropout resumes exactly from the state of the generators") {
  Rng rng(1);
  Mlp m(rng);
  Tensor x = ones({8, 3});
  static_cast<void>(m(x));
  NamedTensors state = nn::generator_state(m);
  Floats next = values(m(x));
  CHECK(values(m(x)) != next);
  nn::load_generator_state(m, state);
  CHECK(values(m(x)) == next);
  CHECK_THROWS_AS(nn::load_generator_state(m, {}), Error);
}

TEST_CASE("module: a checkpoint replays the generators of the module") {
  Rng rng(1);
  Mlp a(rng), b(a);
  Tensor x = randn({8, 3}, rng);
  sum(square(a(x))).backward();
  auto fn = [&](std::span<const Tensor> in) { return b(in[0]); };
  sum(square(checkpoint(fn, {x}, {.rngs = nn::generators(b)}))).backward();
  CHECK(values(b.up.weight.grad()) == values(a.up.weight.grad()));
  CHECK(values(b(x)) == values(a(x)));
}

// Spectral norm moves its vectors in each training pass, and its weight depends on them.
TEST_CASE("module: a checkpoint of a spectral norm has the gradients and vectors of a plain run") {
  Rng rng(1);
  const nn::SpectralNorm layer(nn::Linear(5, 4, rng, nn::Bias::no), rng);
  const Tensor x = randn({3, 5}, rng);
  const auto trained = [&](int nested) {
    nn::SpectralNorm copy = layer;
    std::function<Tensor(std::span<const Tensor>)> fn = [&copy](std::span<const Tensor> in) {
      return copy(in[0]);
    };
    for (int i = 0; i < nested; ++i)
      fn = [fn](std::span<const Tensor> in) { return checkpoint(fn, {in[0]}); };
    Tensor in = x.clone().set_requires_grad();
    const Tensor two[] = {in}, four[] = {2 * in};
    const Tensor y = sum(exp(fn(two))) + sum(sin(fn(four)));  // both run before backward
    const Tensor dx = grad({y}, {in}, {.create_graph = true})[0];
    (y + sum(dx * dx)).backward();
    Floats all = values(copy.spectral.original.grad());
    for (const Tensor& t : {in.grad(), copy.spectral.u.tensor(), copy.spectral.v.tensor()})
      for (const float f : values(t)) all.push_back(f);
    return all;
  };
  const Floats plain = trained(0);
  for (const int nested : {1, 2}) {
    const Floats again = trained(nested);
    for (size_t i = 0; i < plain.size(); ++i)
      CHECK(again[i] == doctest::Approx(plain[i]).epsilon(1e-5));
  }
}

// An average of unit vectors (Ema) is shorter than 1.
TEST_CASE("module: a spectral norm in evaluation uses only the directions of its vectors") {
  Rng rng(1);
  nn::SpectralNorm layer(nn::Linear(5, 4, rng), rng);
  nn::set_training(layer, false);
  const Tensor before = layer.weight().detach();
  mul_(layer.spectral.u, 0.5), mul_(layer.spectral.v, 0.7);
  CHECK(all_close(layer.weight(), before, 1e-5, 1e-6));
}

TEST_CASE("module: weight norm loads the names that PyTorch had before its parametrizations") {
  Rng rng(1);
  nn::Sequential net(nn::WeightNorm(nn::Linear(3, 2, rng)));
  nn::load_state_dict(
      net, {{"0.bias", ones({2})}, {"0.weight_g", full({2, 1}, 5)}, {"0.weight_v", ones({2, 3})}});
  const auto state = nn::state_dict(net);
  CHECK(state[1].first == "0.parametrizations.weight.original0");
  CHECK(values(state[1].second) == Floats(2, 5));
  CHECK(values(state[2].second) == Floats(6, 1));
}

TEST_CASE("module: a state that does not fit changes nothing; the error lists all differences") {
  Rng rng(1);
  Mlp m(rng);
  NamedTensors good;
  for (const auto& [name, t] : nn::state_dict(m)) good.emplace_back(name, full(t.shape(), 9));
  auto with = [&](size_t i, std::string name, Tensor t) {
    NamedTensors s = good;
    s[i] = {std::move(name), std::move(t)};
    return s;
  };
  Floats before = values(m.up.weight);
  CHECK_THROWS_WITH_AS(nn::load_state_dict(m, with(1, "up.bais", zeros({4}))),
                       "load_state_dict: 1 missing: up.bias; 1 unexpected: up.bais (did you mean "
                       "up.bias?)",
                       Error);
  CHECK_THROWS_WITH_AS(nn::load_state_dict(m, with(0, "up.weight", zeros({3, 4}))),
                       "load_state_dict: 1 mismatched: up.weight is (3, 4) instead of (4, 3)",
                       Error);
  CHECK_THROWS_AS(nn::load_state_dict(m, with(1, "up.weight", zeros({4, 3}))), Error);
  CHECK_THROWS_AS(nn::load_state_dict(m, with(1, "up.bias", zeros({4}, DType::i64))), Error);
  CHECK(values(m.up.weight) == before);

  // Not strict: writes what fits and reports the rest. Another shape is still an error.
  LoadStateReport r = nn::load_state_dict(m, with(1, "other", zeros({4})), {.strict = false});
  CHECK(r.missing == Strings{"up.bias"});
  CHECK(r.unexpected == Strings{"other"});
  CHECK(values(m.up.weight) == Floats(12, 9.0f));
  CHECK_THROWS_AS(nn::load_state_dict(m, with(0, "up.weight", zeros({1})), {.strict = false}),
                  Error);
  const NamedTensors foreign = {{"module.up.weight", zeros({4, 3})}};
  CHECK_THROWS_WITH_AS(
      nn::load_state_dict(m, foreign, {.strict = false}),
      "load_state_dict: nothing would be loaded: none of the 1 names given is among the 4 wanted; "
      "'module.up.weight' was given, 'up.weight' is wanted: rename or strip a prefix",
      Error);
  CHECK_THROWS_WITH_AS(nn::load_state_dict(m, {}, {.strict = false}),
                       doctest::Contains("none of the 0 names"), Error);
  nn::Flatten nothing;  // has no parameters
  CHECK_NOTHROW(nn::load_state_dict(nothing, {}, {.strict = false}));

  // f64 values are converted.
  nn::load_state_dict(m, with(1, "up.bias", full({4}, 0.5, DType::f64)));
  CHECK(values(m.up.bias) == Floats(4, 0.5f));
  CHECK(m.up.bias.dtype() == DType::f32);
}

TEST_CASE("module: a tied parameter is counted and saved once and loads from either name") {
  Rng rng(1);
  Tied m(rng);
  CHECK(names(nn::named_parameters(m)) == Strings{"embed.weight"});
  CHECK(nn::num_parameters(m) == 12);
  nn::load_state_dict(m, {{"generator.weight", full({4, 3}, 2)}});
  CHECK(values(m.embed.weight) == Floats(12, 2.0f));
  nn::load_state_dict(m,
                      {{"embed.weight", full({4, 3}, 3)}, {"generator.weight", full({4, 3}, 3)}});
  CHECK(values(m.embed.weight) == Floats(12, 3.0f));
  CHECK_THROWS_AS(nn::load_state_dict(m, {}), Error);
  Tied copy = m;
  CHECK(nn::num_parameters(copy) == 12);
}

TEST_CASE("module: to() converts parameters and floating buffers") {
  Rng rng(1);
  Everything m(rng);
  Floats before = values(m.present->weight);
  nn::to(m, DType::f64);
  for (const Tensor& t : nn::parameters(m)) {
    CHECK(t.dtype() == DType::f64);
    CHECK(t.requires_grad());
  }
  CHECK(m.owned->running_var.dtype() == DType::f64);
  CHECK(m.table.dtype() == DType::i64);
  CHECK(values(m.present->weight) == before);
  CHECK_THROWS_AS(nn::to(m, DType::i64), Error);
  // The new elements know their names without another walk.
  CHECK(parameter_name(m.weight) == "weight");
  CHECK(parameter_name(m.present->weight) == "present.weight");
  CHECK(parameter_name(m.owned->running_var) == "owned.running_var");
}

TEST_CASE("module: weights survive saving and loading") {
  auto folder =
      std::filesystem::temp_directory_path() / ("tern_module_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::string path = (folder / "m.safetensors").string();
  Rng rng(1);
  Everything a(rng), b(rng);
  nn::save_weights(path, a, {{"epoch", "3"}});
  nn::load_weights(path, b);
  for (const auto& p : nn::state_dict(a))
    CHECK_MESSAGE(values(p.second) == values(find(nn::state_dict(b), p.first)), p.first);
  CHECK(load_safetensors(path).metadata.at("epoch") == "3");
  Mlp other(rng);
  CHECK_THROWS_AS(nn::load_weights(path, other), IoError);
  CHECK_THROWS_AS(nn::load_weights(path + "x", other), IoError);
  std::filesystem::remove_all(folder);
}

struct TorchNet {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  nn::Linear linear;
  static void fields(auto& m, auto&& visit) {
    visit("0", m.conv);
    visit("1", m.norm);
    visit("2", m.linear);
  }
};

TEST_CASE("module: weights of a PyTorch file") {
  Rng rng(1);
  TorchNet net{{1, 2, 3, rng}, nn::BatchNorm2d(2), {2, 3, rng}};
  nn::load_weights(TERN_SOURCE_DIR "/tests/reference/torch/module_2.pt", net);
  CHECK(values(net.linear.weight) == std::vector<float>{-3, -2, -1, 0, 1, 2});
  CHECK(values(net.norm.running_var) == std::vector<float>{-3, -2});
  CHECK_THROWS_WITH_AS(nn::load_weights(TERN_SOURCE_DIR "/tests/reference/torch/tied.pt", net),
                       doctest::Contains("tied.pt"), IoError);
}

TEST_CASE("state: the nearest name") {
  CHECK(nearest_name("up.wieght", {"down.bias", "up.weight"}) == "up.weight");
  CHECK(nearest_name("entirely.different", {"a", "b"}) == "");
  CHECK(nearest_name("x", {}) == "");
}

namespace {

struct Base {
  nn::Parameter weight{ones({2})};
  virtual ~Base() = default;
  static void fields(auto& m, auto&& visit) { visit("weight", m.weight); }
};
struct Derived : Base {
  nn::Parameter more{ones({3})};
  static void fields(auto& m, auto&& visit) {
    Base::fields(m, visit);
    visit("more", m.more);
  }
};
struct Closed final : Base {};

}  // namespace

TEST_CASE("module: a pointer to a base cannot lose a derived class's parameters") {
  // For these types the walk does not compile (tests/refused/unique_ptr_base.cpp).
  CHECK(nn::detail::may_own_derived<std::unique_ptr<Base>>);
  CHECK_FALSE(nn::detail::may_own_derived<std::unique_ptr<Closed>>);
  CHECK_FALSE(nn::detail::may_own_derived<std::unique_ptr<nn::BatchNorm2d>>);
  auto closed = std::make_unique<Closed>();
  CHECK(nn::num_parameters(closed) == 2);
  Derived derived;
  CHECK(nn::num_parameters(derived) == 5);
  const Base& base = derived;
  CHECK_THROWS_WITH_AS(nn::num_parameters(base), doctest::Contains("would miss"), Error);
  CHECK(nn::num_parameters(Base()) == 2);
}

}  // namespace tern::test_module
