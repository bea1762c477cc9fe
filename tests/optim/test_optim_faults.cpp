// Errors around a training step: no step is taken in part, and no error goes unnoticed.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "tern/core/base/allocator.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_optim_faults {

namespace {

using test::contains, test::error_of, test::leaf;

using Floats = std::vector<float>;

Floats values(const Tensor& t) { return t.to_vector<float>(); }

/// Three parameters with gradients; only the state of the second, large one does not fit.
NamedTensors three() {
  NamedTensors p = {{"a", leaf(linspace(-1, 1, 10))},
                    {"b", leaf(linspace(-1, 1, 1 << 20))},
                    {"c", leaf(linspace(1, 2, 10))}};
  for (auto& [name, t] : p) t.set_grad(linspace(3, -2, t.numel()));
  return p;
}

/// Sets a memory cap and removes it when the test ends, even by an exception.
struct CapScope {
  explicit CapScope(int64_t bytes) { set_memory_cap(bytes); }
  ~CapScope() { set_memory_cap(0); }
};

struct Net {
  nn::Linear used;
  nn::Parameter forgotten;
  std::vector<nn::Linear> also;
  explicit Net(Rng& rng) : used(4, 4, rng), forgotten(randn({4}, rng)) {
    also.emplace_back(4, 4, rng);
  }
  static void fields(auto& m, auto&& visit) { visit("used", m.used); }
};

struct Leaky {
  nn::Linear layer;
  nn::Dropout drop;
  nn::BatchNorm2d norm;
  explicit Leaky(Rng& rng) : layer(4, 4, rng), drop(0.5, rng), norm(3) {}
  static void fields(auto& m, auto&& visit) {
    visit("layer", m.layer);
    visit("drop", m.drop);
    visit("norm", m.norm);
  }
};

}  // namespace

TEST_CASE("optimizers: a step without enough memory changes nothing and can be repeated") {
  auto run = [](bool capped) {
    NamedTensors p = three();
    optim::AdamW optimizer(p, {.lr = 0.1});
    if (capped) {
      trim_memory();
      CapScope cap(memory_stats().live + (1 << 20));  // the state of b needs eight times as much
      Floats before = values(p[0].second);
      CHECK_THROWS_AS(optimizer.step(), Error);
      CHECK(values(p[0].second) == before);
      CHECK(optimizer.state_dict().empty());  // no step was counted, not even a's
    }
    for (int step = 0; step < 2; ++step) optimizer.step();
    for (auto& named : optimizer.state_dict()) p.push_back(named);
    return test::numbers_of(p);
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("optimizers: one parameter that cannot be stepped leaves all of them unchanged") {
  // The first parameter could be stepped, those of the converted layer cannot.
  Rng rng(1);
  nn::Linear layer(3, 3, rng);
  Tensor first = leaf(ones({2}));
  NamedTensors p = {{"first", first}};
  for (auto& named : nn::named_parameters(layer)) p.push_back(named);
  optim::Sgd optimizer(p, {.lr = 1, .momentum = 0.5});
  for (auto& [name, t] : p) t.set_grad(ones(t.shape()));
  nn::to(layer, DType::f64);
  CHECK(contains(error_of([&] { optimizer.step(); }), "'weight'"));
  CHECK(contains(error_of([&] { optimizer.step(); }), "nn::to"));
  CHECK(values(first) == Floats{1, 1});
  CHECK(optimizer.state_dict().empty());
}

TEST_CASE("optimizers and averages: a model converted since is an error, not a no-op") {
  Rng rng(1);
  nn::Linear layer(3, 3, rng), other(layer);
  optim::AdamW optimizer(nn::named_parameters(layer));
  optim::Ema ema(nn::state_dict(layer));
  nn::to(layer, DType::f32);  // no change: it is f32 already
  sum(layer(ones({2, 3}))).backward();
  CHECK_NOTHROW(optimizer.step());
  CHECK_NOTHROW(ema.update());
  layer = other;  // copied into the same elements
  CHECK_NOTHROW(optimizer.step());
  nn::to(layer, DType::f64);
  optimizer.zero_grad();
  sum(layer(ones({2, 3}, DType::f64))).backward();
  CHECK(contains(error_of([&] { optimizer.step(); }), "AdamW: the model no longer uses"));
  CHECK(contains(error_of([&] { ema.update(); }), "Ema: the model no longer uses"));
  CHECK(contains(error_of([&] { optim::EmaScope scope(ema); }), "Ema: the model no longer uses"));
  CHECK_NOTHROW(optim::AdamW(nn::named_parameters(layer)).step());

  optim::AdamW later(nn::named_parameters(layer));
  layer.weight = nn::Parameter(ones({5, 3}, DType::f64));  // another shape gets new elements
  CHECK(contains(error_of([&] { later.step(); }), "'weight'"));
}

TEST_CASE("optimizers: the first step finds a parameter that `fields` lacks") {
  Rng rng(1);
  Tensor x = randn({2, 4}, rng);
  auto step = [&](Net& net, auto forward) {
    optim::AdamW optimizer(nn::named_parameters(net));
    sum(square(forward(net))).backward();
    return error_of([&] { optimizer.step(); });
  };
  Net a(rng), b(rng), c(rng), d(rng);
  CHECK(step(a, [&](Net& n) { return n.used(x); }) == "");
  std::string text = step(b, [&](Net& n) { return n.used(x) * n.forgotten; });
  CHECK(contains(text, "a parameter of shape (4,) that belongs to no module"));
  CHECK(contains(text, "`fields`"));
  CHECK(contains(step(c, [&](Net& n) { return n.also[0](n.used(x)); }), "belongs to no module"));
  Net copy(d);  // a copy's parameter is unknown, too
  CHECK(contains(step(copy, [&](Net& n) { return n.used(x) * n.forgotten; }),
                 "belongs to no module"));

  // Backward may reach the unknown parameter after all steps inside it.
  Net early(rng);
  optim::Sgd inside(nn::named_parameters(early));
  text = error_of([&] {
    backward(sum(early.used(x * early.forgotten)), {.on_ready = inside.step_in_backward()});
    inside.step();
  });
  CHECK(contains(text, "a parameter of shape (4,) that belongs to no module"));

  // No error if another module or another optimizer lists it, or if it is frozen.
  Net e(rng), f(rng), g(rng);
  nn::set_training(e.also);
  CHECK(step(e, [&](Net& n) { return n.also[0](n.used(x)); }) == "");
  optim::Sgd other(NamedTensors{{"scale", f.forgotten}});
  CHECK(step(f, [&](Net& n) { return n.used(x) * n.forgotten; }) == "");
  g.forgotten.tensor().set_requires_grad(false);
  CHECK(step(g, [&](Net& n) { return n.used(x) * n.forgotten; }) == "");

  // The mistake may be corrected between backward and step().
  Net late(rng);
  optim::AdamW optimizer(nn::named_parameters(late));
  sum(square(late.used(x) * late.forgotten)).backward();
  CHECK(contains(error_of([&] { optimizer.step(); }), "belongs to no module"));
  late.forgotten.tensor().set_requires_grad(false);
  CHECK(error_of([&] { optimizer.step(); }) == "");

  // An input that requires a gradient is not a parameter.
  Net h(rng);
  Tensor input = leaf(x);
  CHECK(step(h, [&](Net& n) { return n.used(input); }) == "");
}

TEST_CASE("check_training_graph: without a model, names leaves that the optimizer lacks") {
  Tensor a = leaf(ones({2})), b = leaf(ones({3}));
  optim::Sgd sgd(NamedTensors{{"a", a}});
  CHECK_NOTHROW(optim::check_training_graph(sum(a), sgd));
  CHECK(
      error_of([&] { optim::check_training_graph(sum(a) + sum(b), sgd); })
          .starts_with("training graph: the loss depends on leaves that are not parameters of the "
                       "model: a leaf of shape (3,). "));
}

TEST_CASE("optimizers: parameters that share elements are refused, disjoint views are not") {
  Tensor whole = zeros({10});
  auto view = [&](int64_t first, int64_t last) {
    return slice(whole, 0, first, last).detach().set_requires_grad();
  };
  auto both = [&](Tensor p, Tensor q) {
    return error_of([&] { optim::Sgd(NamedTensors{{"p", p}, {"q", q}}); });
  };
  CHECK(both(view(0, 5), view(5, 10)) == "");
  CHECK(both(view(5, 10), view(0, 5)) == "");
  CHECK(both(view(0, 6), view(5, 10)) ==
        "Sgd: 'p' and 'q' share elements; give the optimizer one of them");
  CHECK(contains(both(view(2, 4), view(0, 10)), "share elements"));
  CHECK(both(view(0, 10), view(0, 10)) == "Sgd: 'p' and 'q' are the same parameter");
  CHECK(both(view(3, 3), view(0, 10)) == "");  // an empty view shares nothing
  Tensor p = view(0, 5), q = view(5, 10);
  optim::Sgd sgd(NamedTensors{{"p", p}, {"q", q}}, {.lr = 1});
  p.set_grad(ones({5}));
  q.set_grad(full({5}, 2));
  sgd.step();
  CHECK(values(whole) == Floats{-1, -1, -1, -1, -1, -2, -2, -2, -2, -2});
}

TEST_CASE("check_finite_gradients names the first parameter and the element") {
  const int64_t n = 100003;  // several pieces; the last one is shorter
  Tensor a = leaf(zeros({n})), b = leaf(zeros({n}, DType::f64)), none = leaf(zeros({3})),
         empty = leaf(zeros({0}));
  NamedTensors p = {{"none", none}, {"empty", empty}, {"layers.0.a", a}, {"layers.1.b", b}};
  empty.set_grad(zeros({0}));
  auto reset = [&] {
    a.set_grad(full({n}, std::numeric_limits<float>::max()));
    b.set_grad(full({n}, -std::numeric_limits<double>::max(), DType::f64));
  };
  auto put = [](const Tensor& t, int64_t at, double value) {
    NoGradGuard guard;
    fill_(t.grad()[at], value);
  };
  reset();
  CHECK_FALSE(optim::find_non_finite_gradient(p).has_value());
  CHECK_NOTHROW(optim::check_finite_gradients(p));
  for (double bad : {test::kInf, -test::kInf, test::kNan})
    for (int64_t at : {int64_t{0}, int64_t{16384}, n - 1}) {
      reset();
      put(b, at, bad);
      auto found = optim::find_non_finite_gradient(p);
      REQUIRE(found.has_value());
      CHECK(found->parameter == "layers.1.b");
      CHECK(found->element == at);
      CHECK((found->value == bad || std::isnan(bad)));
      put(a, at, bad);
      CHECK(optim::find_non_finite_gradient(p)->parameter == "layers.0.a");
    }
  CHECK(contains(error_of([&] { optim::check_finite_gradients(p); }),
                 "the gradient of 'layers.0.a' has nan at element 100002"));
  // A transposed gradient is read in row-major order and stays transposed.
  Tensor w = leaf(zeros({2, 3}));
  w.set_grad(transpose(tensor({1, 2, 3, 4, std::nan(""), 6}, {3, 2}).to(DType::f32), 0, 1));
  CHECK(optim::find_non_finite_gradient({{"w", w}})->element == 2);
  CHECK_FALSE(w.grad().is_contiguous());
}

TEST_CASE("EmaScope: restores the weights when the evaluation throws, even without free memory") {
  Tensor w = leaf(full({100000}, 1)), n = scalar(1, DType::i64);
  optim::Ema ema({{"w", w}, {"n", n}}, {.decay = 0.75}), other({{"w", w}}, {.decay = 0.5});
  optim::Sgd optimizer(NamedTensors{{"w", w}}, {.lr = 0.1});
  {
    NoGradGuard guard;
    fill_(w, 5);
  }
  ema.update();
  auto evaluate = [&] {
    optim::EmaScope averaged(ema);
    CHECK(ema.swapped());
    CHECK(values(w)[99999] == 2);
    CHECK_THROWS_AS(ema.update(), Error);
    w.set_grad(ones({100000}));
    CHECK(
        contains(error_of([&] { optimizer.step(); }), "'w' holds averaged weights at the moment"));
    CHECK(contains(error_of([&] { optimizer.step_in_backward()(w); }), "averaged weights"));
    CHECK(contains(error_of([&] { optim::EmaScope second(ema); }), "swapped in already"));
    other.swap();  // over the same weight
    CHECK(contains(error_of([&] { ema.swap(); }), "'w' holds the averages of another Ema"));
    other.swap();
    CHECK(values(w)[99999] == 2);
    set_memory_cap(1);  // restoring must not allocate
    throw std::runtime_error("evaluation");
  };
  CHECK_THROWS_AS(evaluate(), std::runtime_error);
  set_memory_cap(0);
  CHECK_FALSE(ema.swapped());
  CHECK(values(w) == Floats(100000, 5.0f));
  CHECK(values(ema.averages()[0].second) == Floats(100000, 2.0f));
  {
    optim::EmaScope averaged(ema);
    ema.swap();  // swaps out before the scope ends
  }
  CHECK(values(w)[0] == 5);
  CHECK_NOTHROW(optimizer.step());
  CHECK(values(w)[0] < 5);
}

TEST_CASE("EmaScope: writing into the averages is refused, computing with them is not") {
  Rng rng(1);
  Leaky m(rng);
  const NamedTensors saved = test::copies(nn::state_dict(m));
  optim::Ema ema(nn::state_dict(m), {.decay = 0.5});
  const Tensor x = randn({4, 3, 5, 5}, rng);
  {
    NoGradGuard guard;
    static_cast<void>(m.norm(x));  // updates running statistics
    ema.update();
  }
  const auto averages = [&] {
    std::vector<Floats> out;
    for (const auto& [name, t] : ema.averages()) out.push_back(t.to(DType::f32).to_vector<float>());
    return out;
  };
  const auto before = averages();
  {
    optim::EmaScope averaged(ema);
    CHECK(contains(error_of([&] { nn::load_state_dict(m, saved); }),
                   "load_state_dict: the model holds averages at the moment"));
    CHECK(contains(error_of([&] { ema.load_state_dict(ema.state_dict()); }),
                   "holds averages at the moment"));
    NoGradGuard guard;
    CHECK(contains(error_of([&] { (void)m.norm(x); }), "holds averages at the moment (EmaScope"));
    CHECK(contains(error_of([&] { fill_(m.norm.running_mean, 3); }), "fill_"));
    nn::EvalScope evaluating(m);
    CHECK(m.norm(x).shape() == x.shape());
    CHECK(averages() == before);
  }
  CHECK(averages() == before);
  CHECK_NOTHROW(nn::load_state_dict(m, saved));
  CHECK_NOTHROW(ema.load_state_dict(ema.state_dict()));
  CHECK_NOTHROW((void)m.norm(x));
}

TEST_CASE("EmaScope: a backward pass into or out of a scope is an error that names it") {
  for (MatmulPrecision precision : {MatmulPrecision::f32, MatmulPrecision::bf16}) {
    const MatmulPrecisionScope scope(precision);
    Rng rng(1);
    nn::Linear layer(3, 4, rng), next(4, 2, rng);
    optim::Ema ema(nn::named_parameters(layer));
    NamedTensors all = nn::named_parameters(layer);
    const Tensor x = randn({5, 3}, rng).set_requires_grad();
    Tensor before = sum(next(layer(x)));
    {
      optim::EmaScope averaged(ema);
      CHECK(contains(error_of([&] { before.backward(); }), "an EmaScope (or Ema::swap) has put"));
    }
    before = sum(next(layer(x)));
    Tensor inside;
    {
      optim::EmaScope averaged(ema);
      sum(layer(x)).backward();
      inside = sum(layer(x));
    }
    CHECK(contains(error_of([&] { before.backward(); }), "an EmaScope"));
    CHECK(contains(error_of([&] { inside.backward(); }), "an EmaScope"));
    // The way out that the message names: the averages as a teacher between the two passes.
    before = sum(next(layer(x)));
    const std::string error = error_of([&] {
      optim::EmaScope averaged(ema);
      before.backward();
    });
    CHECK(contains(error, "nn::WeightsInstead(model, ema.averages())"));
    before = sum(next(layer(x)));
    {
      nn::WeightsInstead teacher(layer, ema.averages());
      CHECK(!layer(x.detach()).requires_grad());
    }
    before.backward();
    Tensor after = sum(layer(x));
    {
      NoGradGuard guard;
      fill_(layer.weight, 1);
    }
    const std::string written = error_of([&] { after.backward(); });
    CHECK(contains(written, "was written in place after it was saved"));
    CHECK(contains(written, "run backward for all losses before the step"));  // it is a weight
  }
}

TEST_CASE("optimizers: two of them may not step with the same gradient, unless it is changed") {
  Tensor w = leaf(ones({3})), v = leaf(ones({3}));
  optim::Sgd first(NamedTensors{{"w", w}, {"v", v}}, {.lr = 1});
  optim::Sgd second(NamedTensors{{"w", w}}, {.lr = 1});
  const auto pass = [&] { sum(w * w * v).backward(); };
  pass();
  first.step();
  const Floats once = values(w);
  const std::string text = error_of([&] { second.step(); });
  CHECK(contains(text, "another optimizer (Sgd) has already stepped 'w'"));
  CHECK(contains(text, "zero_grad()"));
  CHECK(values(w) == once);
  CHECK(contains(error_of([&] { second.step_in_backward()(w); }), "another optimizer"));
  // Allowed: a gradient with more added, a new one after clearing, a changed one, a clone.
  const std::vector<std::function<void()>> fresh = {
      pass, [&] { first.zero_grad(), pass(); }, [&] { w.zero_grad(), pass(); },
      [&] { mul_(w.grad(), 0.5); }, [&] { w.set_grad(w.grad().clone()); }};
  for (size_t i = 0; i < fresh.size(); ++i) {
    CAPTURE(i);
    first.zero_grad(), pass(), first.step();
    fresh[i]();
    CHECK_NOTHROW(second.step());
  }
  // One optimizer may step repeatedly, and others may step other parameters.
  first.zero_grad(), pass();
  optim::Sgd of_v(NamedTensors{{"v", v}}, {.lr = 1});
  second.step(), second.step(), of_v.step();
}

TEST_CASE("optimizers: a group without parameters is refused; decay_groups makes none") {
  Tensor w = leaf(ones({2, 3}));
  using Groups = std::vector<optim::MuonWithAdamW::Group>;
  const optim::MuonParameters p = optim::muon_parameters({{"w", w}});  // w is in no list of blocks
  REQUIRE(p.hidden.empty());
  CHECK(contains(error_of([&] {
                   optim::MuonWithAdamW(
                       Groups{{p.hidden, optim::MuonOptions{}}, {p.others, optim::AdamWOptions{}}});
                 }),
                 "MuonWithAdamW: group 0 of 2 has no parameters"));
  CHECK(contains(error_of([&] {
                   optim::Sgd(std::vector<optim::ParameterGroup>{{{{"w", w}}}, {}});
                 }),
                 "group 1 of 2 has no parameters"));
  const optim::AdamW decayed(optim::decay_groups({{"w", w}}, 0.1));
  CHECK(decayed.num_groups() == 1);
  CHECK(decayed.weight_decay(0) == 0.1);
}

TEST_CASE("optimizers: a group or a parameter that does not exist is an error that says so") {
  optim::AdamW adam(three());
  const std::string group = "AdamW: there is no group 1; there are 1, counted from 0";
  CHECK(error_of([&] { adam.lr(1); }) == group);
  CHECK(error_of([&] { adam.weight_decay(1); }) == group);
  CHECK(error_of([&] { adam.rule(1); }) == group);
  CHECK(error_of([&] { adam.rule_name(1); }) == group);
  CHECK(error_of([&] { (void)adam.settings(1); }) == group);
  CHECK(error_of([&] { adam.set_settings({{"lr", 1}}, 1); }) == group);
  CHECK(error_of([&] { (void)adam.names_in(1); }) == group);
  const std::string parameter = "AdamW: there is no parameter 3; there are 3, counted from 0";
  CHECK(error_of([&] { (void)adam.state_dict(3); }) == parameter);
  CHECK(error_of([&] { adam.state_bytes(3); }) == parameter);
}

TEST_CASE("Adafactor: errors give the bound that is wrong") {
  CHECK(error_of([] { optim::Adafactor(three(), {.eps1 = 0}); }) ==
        "Adafactor: eps1 must be positive, it is 0");
  CHECK(error_of([] { optim::Adafactor(three(), {.eps2 = -1}); }) ==
        "Adafactor: eps2 must not be negative, it is -1");
}

TEST_CASE("EvalScope: restores the mode of every layer, even after an exception") {
  Rng rng(1);
  Leaky m(rng);
  m.norm.training = false;  // frozen by the user
  auto evaluate = [&] {
    nn::EvalScope evaluating(m);
    CHECK_FALSE(m.drop.training);
    {
      nn::EvalScope inner(m);
      CHECK_FALSE(m.drop.training);
    }
    CHECK_FALSE(m.drop.training);
    throw std::runtime_error("evaluation");
  };
  CHECK_THROWS_AS(evaluate(), std::runtime_error);
  CHECK(m.drop.training);
  CHECK_FALSE(m.norm.training);
}

}  // namespace tern::test_optim_faults
