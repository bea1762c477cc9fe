// All optimizers, and groups with different settings, against numbers of PyTorch and timm
// (make_optim.py and make_more_optim.py in tests/reference/optim).
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "tern/core/base/allocator.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::test_more_optim {

namespace {

using test::contains, test::error_of, test::leaf, test::numbers_of;

using Doubles = std::vector<double>;
using Make = std::function<std::unique_ptr<optim::Optimizer>(const NamedTensors&)>;

template <class Kind>
Make simple(const typename Kind::Options& options = {}) {
  return [options](const NamedTensors& p) { return std::make_unique<Kind>(p, options); };
}

/// `b` gets the settings of_b, the other parameters `options`.
template <class Kind>
Make grouped(const typename Kind::Options& options, const typename Kind::Options& of_b) {
  return [=](const NamedTensors& p) {
    typename Kind::Group all{{}, options}, b{{}, of_b};
    for (const auto& q : p) (q.first == "b" ? b : all).parameters.push_back(q);
    return std::make_unique<Kind>(std::vector{all, b});
  };
}

constexpr const char *kOptim = "optim", *kMoreOptim = "more_optim";

struct Case {
  std::string name;
  Make make;
  bool matrices = false;
  const char* file = kMoreOptim;  ///< in tests/reference/optim, written by make_FILE.py
};

/// `b` gets another learning rate and no decay.
std::unique_ptr<optim::Optimizer> adamw_groups(const NamedTensors& p) {
  optim::ParameterGroup others, b{{}, .02, 0.0};
  for (const auto& q : p) (q.first == "b" ? b : others).parameters.push_back(q);
  return std::make_unique<optim::AdamW>(
      std::vector{others, b},
      optim::AdamWOptions{.lr = .01, .beta1 = .8, .beta2 = .95, .eps = 1e-6, .weight_decay = .1});
}

std::vector<Case> cases() {
  return {
      {"adamw", simple<optim::AdamW>(), false, kOptim},
      {"adamw_groups", adamw_groups, false, kOptim},
      {"adam", simple<optim::Adam>({.lr = .01, .weight_decay = .1}), false, kOptim},
      {"sgd", simple<optim::Sgd>({.lr = .1, .weight_decay = .01}), false, kOptim},
      {"sgd_momentum",
       simple<optim::Sgd>({.lr = .1, .momentum = .9, .dampening = .3, .weight_decay = .01}), false,
       kOptim},
      {"sgd_nesterov", simple<optim::Sgd>({.lr = .1, .momentum = .8, .nesterov = true}), false,
       kOptim},
      {"rmsprop", simple<optim::RmsProp>({.weight_decay = .05}), false, kOptim},
      {"rmsprop_centered", simple<optim::RmsProp>({.lr = .02, .alpha = .9, .centered = true}),
       false, kOptim},
      {"rmsprop_momentum",
       simple<optim::RmsProp>(
           {.lr = .02, .alpha = .9, .eps = 1e-6, .momentum = .7, .centered = true}),
       false, kOptim},
      {"adadelta", simple<optim::Adadelta>({.weight_decay = .01}), false, kOptim},
      {"adadelta_lr", simple<optim::Adadelta>({.lr = .5, .rho = .8, .eps = 1e-4}), false, kOptim},
      {"lion", simple<optim::Lion>()},
      {"lion_options",
       simple<optim::Lion>({.lr = .01, .beta1 = .8, .beta2 = .95, .weight_decay = .1})},
      {"nadam", simple<optim::NAdam>()},
      {"nadam_options", simple<optim::NAdam>({.lr = .01,
                                              .beta1 = .8,
                                              .beta2 = .95,
                                              .eps = 1e-6,
                                              .weight_decay = .1,
                                              .momentum_decay = .1,
                                              .decoupled_weight_decay = true})},
      {"nadam_decay", simple<optim::NAdam>({.weight_decay = .1})},
      {"radam", simple<optim::RAdam>()},
      {"radam_options", simple<optim::RAdam>({.lr = .01,
                                              .beta1 = .8,
                                              .beta2 = .95,
                                              .eps = 1e-6,
                                              .weight_decay = .1,
                                              .decoupled_weight_decay = true})},
      {"radam_decay", simple<optim::RAdam>({.weight_decay = .1})},
      {"lamb", simple<optim::Lamb>()},
      {"lamb_options", simple<optim::Lamb>({.lr = .05,
                                            .beta1 = .8,
                                            .beta2 = .95,
                                            .weight_decay = 0,
                                            .trust_clip = true,
                                            .always_adapt = true})},
      {"lamb_plain", simple<optim::Lamb>({.lr = .05, .weight_decay = 0, .bias_correction = false})},
      // The default of both is the epsilon of float64.
      {"adafactor", simple<optim::Adafactor>({.eps1 = std::numeric_limits<double>::epsilon()})},
      {"adafactor_options",
       simple<optim::Adafactor>(
           {.lr = .3, .beta2_decay = -.5, .eps1 = 1e-4, .eps2 = .5, .d = 1.5, .weight_decay = .1})},
      {"muon", simple<optim::Muon>(), true},
      {"muon_options",
       simple<optim::Muon>({.lr = .02,
                            .weight_decay = .01,
                            .momentum = .8,
                            .nesterov = false,
                            .eps = 1e-3,
                            .ns_steps = 3,
                            .rate = optim::MuonRate::match_rms_adamw}),
       true},
      {"muon_spectral",
       simple<optim::Muon>({.lr = .02,
                            .ns_coefficients = {2, -1.5, .5},
                            .rate = optim::MuonRate::spectral_unclamped}),
       true},
      {"adamw_groups",
       grouped<optim::AdamW>(
           {.lr = .01}, {.lr = .01, .beta1 = .5, .beta2 = .7, .eps = 1e-3, .weight_decay = 0})},
      {"sgd_groups", grouped<optim::Sgd>({.lr = .1}, {.lr = .1, .momentum = .9, .nesterov = true})},
  };
}

const SafeTensors& reference(const Case& c) {
  static std::map<std::string, SafeTensors> files;
  SafeTensors& file = files[c.file];
  if (file.tensors.empty())
    file = load_safetensors(std::string(TERN_SOURCE_DIR "/tests/reference/optim/") + c.file +
                            ".safetensors");
  return file;
}

NamedTensors start(const Case& c, DType dtype = DType::f64) {
  NamedTensors out;
  for (const char* name : {"w", "tall", "b", "rare"}) {
    const Tensor t = reference(c).find(std::string("start.") + name);
    if (t.defined() && (!c.matrices || t.ndim() == 2)) out.emplace_back(name, leaf(t.to(dtype)));
  }
  return out;
}

void set_gradients(const Case& c, const NamedTensors& p, int64_t step) {
  for (const auto& [name, t] : p) {
    Tensor g = reference(c).find("gradient." + name)[step].to(t.dtype());
    t.set_grad(name == "rare" && step % 2 ? Tensor() : g);
  }
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return max(abs(a.detach().to(DType::f64) - b)).item();
}

/// The result of six steps, inside backward or after it, with averages of the weights.
struct Trained {
  Doubles weights, averages;
};
Trained trained(const Case& c, bool in_backward, bool with_ema) {
  Rng rng(3);
  const nn::Bias bias = c.matrices ? nn::Bias::no : nn::Bias::yes;
  nn::Linear a(20, 30, rng, bias), b(30, 4, rng, bias);
  NamedTensors p;
  for (auto& [name, t] : nn::named_parameters(a)) p.emplace_back("a." + name, t);
  for (auto& [name, t] : nn::named_parameters(b)) p.emplace_back("b." + name, t);
  auto optimizer = c.make(p);
  optim::Ema ema(p, {.decay = .9});
  for (int step = 0; step < 6; ++step) {
    optimizer->set_lr_factor(1.0 / (1 + step));
    Tensor loss = mean(square(b(tanh(a(randn({8, 20}, rng))))));
    if (in_backward)
      backward(loss, {.on_ready = optimizer->step_in_backward()});
    else
      loss.backward();
    optimizer->step();
    optimizer->zero_grad();
    if (!with_ema) continue;
    ema.update();
    optim::EmaScope averaged(ema);
    sum(b(a(ones({1, 20})))).backward();
    CHECK(contains(error_of([&] { optimizer->step(); }), "holds averaged weights"));
    optimizer->zero_grad();
  }
  return {numbers_of(p), numbers_of(ema.averages())};
}

}  // namespace

TEST_CASE("optimizers: 20 steps equal PyTorch's and timm's") {
  for (const Case& c : cases())
    for (DType dtype : {DType::f64, DType::f32}) {
      const NamedTensors p = start(c, dtype);
      auto optimizer = c.make(p);
      for (int64_t step = 0; step < 20; ++step) set_gradients(c, p, step), optimizer->step();
      // f32: 20 roundings of numbers around 1. They are amplified by 1/sqrt(v) of early small
      // gradients, and Newton-Schulz triples small singular values.
      const bool first = c.file == std::string(kOptim);
      const double tolerance = dtype == DType::f64 ? (first ? 1e-6 : 1e-11) : first ? 1e-4 : 2e-5;
      for (const auto& q : p) {
        const double difference =
            largest_difference(q.second, reference(c).find(c.name + "." + q.first));
        CHECK_MESSAGE(difference < tolerance, c.name, " ", q.first, ": ", difference);
      }
    }
}

TEST_CASE("optimizers: a saved and loaded state continues exactly") {
  for (const Case& c : cases())
    for (DType dtype : {DType::f64, DType::f32}) {
      const NamedTensors p = start(c, dtype);
      auto optimizer = c.make(p);
      NamedTensors state, resumed;
      for (int64_t step = 0; step < 20; ++step) {
        if (step == 7) {
          state = test::copies(optimizer->state_dict());
          for (const auto& [n, t] : p) resumed.emplace_back(n, leaf(t.detach()));
        }
        set_gradients(c, p, step);
        optimizer->step();
      }
      auto other = c.make(resumed);
      other->load_state_dict(state);
      for (int64_t step = 7; step < 20; ++step) set_gradients(c, resumed, step), other->step();
      CHECK_MESSAGE(numbers_of(p) == numbers_of(resumed), c.name);
      CHECK_MESSAGE(numbers_of(optimizer->state_dict()) == numbers_of(other->state_dict()), c.name);
      if (state.back().first.ends_with(".step")) continue;  // plain SGD has no other state
      state.pop_back();
      CHECK_MESSAGE(!error_of([&] { other->load_state_dict(state); }).empty(), c.name);
    }
}

TEST_CASE("optimizers: a step inside backward has the bits of a step after it, with averages") {
  for (const Case& c : cases()) {
    if (c.name.ends_with("groups")) continue;  // their parameters have other names
    const Trained plain = trained(c, false, false), averaged = trained(c, false, true);
    const Trained inside = trained(c, true, false), both = trained(c, true, true);
    CHECK_MESSAGE(plain.weights == inside.weights, c.name);
    CHECK_MESSAGE(plain.weights == averaged.weights, c.name);
    CHECK_MESSAGE(plain.weights == both.weights, c.name);
    CHECK_MESSAGE(averaged.averages == both.averages, c.name);
    CHECK_MESSAGE(averaged.averages != averaged.weights, c.name);
  }
}

TEST_CASE("optimizers: same bits on any number of threads; strided and empty gradients") {
  for (const Case& c : cases()) {
    auto run = [&](int threads, bool strided) {
      const test::Threads scope(threads);
      Rng rng(4);
      NamedTensors p = {{"w", leaf(randn({130, 200}, rng))}, {"b", leaf(zeros({0, 3}))}};
      auto optimizer = c.make(p);
      for (int step = 0; step < 3; ++step) {
        Tensor g = randn({200, 130}, rng);
        p[0].second.set_grad(strided ? transpose(g, 0, 1) : transpose(g, 0, 1).contiguous());
        p[1].second.set_grad(zeros({0, 3}));
        optimizer->step();
      }
      return numbers_of(p);
    };
    const Doubles one = run(1, false);
    CHECK_MESSAGE(one == run(3, false), c.name);
    CHECK_MESSAGE(one == run(1, true), c.name);
    for (double v : one) REQUIRE(std::isfinite(v));
  }
}

TEST_CASE("groups: every setting may differ; each group has the state of its rule") {
  Tensor a = leaf(ones({2})), b = leaf(ones({3}));
  optim::Sgd sgd(std::vector<optim::Sgd::Group>{
      {.parameters = {{"a", a}}, .options = {.lr = .5}},
      {.parameters = {{"b", b}}, .options = {.lr = .1, .momentum = .9, .weight_decay = .2}}});
  CHECK(sgd.num_groups() == 2);
  CHECK(sgd.lr(0) == .5);
  CHECK(sgd.lr(1) == .1);
  CHECK(sgd.weight_decay(1) == .2);
  CHECK(sgd.rule(1).momentum == .9);
  sgd.set_lr_factor(.5);
  CHECK(sgd.lr(1) == .05);
  a.set_grad(ones({2})), b.set_grad(ones({3}));
  sgd.step();
  std::vector<std::string> names;
  for (const auto& [name, t] : sgd.state_dict()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"a.step", "b.step", "b.momentum_buffer"});
  using Groups = std::vector<optim::AdamW::Group>;
  CHECK(contains(error_of([&] {
                   optim::AdamW(Groups{{{{"a", a}}, {}}, {{{"b", b}}, {.beta1 = 1}}});
                 }),
                 "AdamW: betas must lie in [0, 1)"));
  CHECK(contains(error_of([&] {
                   optim::AdamW(Groups{{{{"a", a}}, {}}, {{{"b", b}}, {.lr = -1}}});
                 }),
                 "lr and weight decay must not be negative"));
  CHECK(contains(error_of([&] {
                   optim::AdamW(Groups{{{{"a", a}}, {}}, {{{"a", b}}, {}}});
                 }),
                 "two parameters are called 'a'; for the parts of a program give each a prefix"));
}

TEST_CASE("Adafactor keeps a row and a column; NAdam's product has one element") {
  Tensor w = leaf(ones({2, 3, 4}));
  w.set_grad(ones({2, 3, 4}));
  optim::Adafactor factors(NamedTensors{{"w", w}});
  factors.step();
  const NamedTensors state = factors.state_dict();
  REQUIRE(state.size() == 3);
  CHECK(state[1].first == "w.row_var");
  CHECK(state[1].second.shape() == Shape{2, 3, 1});
  CHECK(state[2].first == "w.col_var");
  CHECK(state[2].second.shape() == Shape{2, 1, 4});
  // By default the bound is the epsilon of the type: a gradient of zeros changes nothing.
  Tensor still = leaf(ones({3, 3}));
  still.set_grad(zeros({3, 3}));
  optim::Adafactor(NamedTensors{{"still", still}}).step();
  CHECK(all(eq(still, 1)).item<bool>());
  w.set_grad(ones({2, 3, 4}));
  optim::NAdam nadam(NamedTensors{{"w", w}});
  nadam.step();
  CHECK(nadam.state_dict()[3].first == "w.mu_product");
  CHECK(nadam.state_dict()[3].second.shape() == Shape{});
}

TEST_CASE("Muon makes the momentum orthogonal, refuses vectors, and steps all or none") {
  Rng rng(5);
  Tensor w = leaf(zeros({30, 50}, DType::f64));
  w.set_grad(randn({30, 50}, rng, DType::f64));
  optim::Muon muon(NamedTensors{{"w", w}},
                   {.lr = 1, .weight_decay = 0, .ns_coefficients = {2, -1.5, .5}, .ns_steps = 30});
  muon.step();
  Tensor gram = matmul(w.detach(), transpose(w.detach(), 0, 1));
  CHECK(largest_difference(gram, eye(30, -1, DType::f64)) < 1e-9);  // these coefficients converge
  CHECK(
      error_of([] {
        optim::Muon(NamedTensors{{"bias", leaf(zeros({3}))}});
      }) ==
      "Muon: 'bias' of shape (3,): it is neither a matrix (rows, cols) nor the weight of a Conv2d "
      "or Conv3d; give it to another optimizer, such as AdamW");

  Tensor small = leaf(ones({2, 2})), large = leaf(ones({600, 600}));
  small.set_grad(ones({2, 2})), large.set_grad(ones({600, 600}));
  optim::Muon pair(NamedTensors{{"small", small}, {"large", large}});
  trim_memory();  // so that no cached memory serves the step
  set_memory_cap(memory_stats().live + (1 << 20));
  CHECK_THROWS_AS(pair.step(), Error);
  set_memory_cap(0);
  CHECK(all(eq(small, 1)).item<bool>());
  CHECK(pair.state_dict().empty());
  pair.step();
  CHECK(pair.state_dict().size() == 4);
}

TEST_CASE("Muon with AdamW equals two separate optimizers, with one state") {
  Rng rng(6);
  const std::vector<std::pair<const char*, Shape>> shapes = {
      {"embed.weight", {7, 4}},
      {"blocks.0.fc.weight", {6, 4}},
      {"blocks.0.fc.bias", {6}},
      {"blocks.1.0.proj", {4, 6}},
      {"2.weight", {3, 4}},
      {"blocks.1.conv.weight", {2, 2, 3}},
      {"blocks.1.conv2d.weight", {4, 3, 2, 1}},
      {"blocks.1.conv3d.weight", {4, 2, 1, 2, 2}},
      {"blocks.1.depthwise.weight", {4, 1, 3, 3}},
      {"stem.weight", {4, 3, 2, 2}},
      {"blocks.1.fc.parametrizations.weight.original0", {6, 1}}};
  NamedTensors apart, together;
  for (const auto& [name, shape] : shapes) {
    apart.emplace_back(name, leaf(randn(shape, rng)));
    together.emplace_back(name, leaf(apart.back().second.detach()));
  }
  const optim::MuonParameters of = optim::muon_parameters(together);
  std::vector<std::string> hidden;
  for (const auto& [name, tensor] : of.hidden) hidden.push_back(name);
  CHECK(hidden == std::vector<std::string>{"blocks.0.fc.weight", "blocks.1.0.proj",
                                           "blocks.1.conv2d.weight", "blocks.1.conv3d.weight"});
  const optim::MuonOptions muon{.lr = .02, .rate = optim::MuonRate::match_rms_adamw};
  const optim::AdamWOptions adamw{.lr = .01, .weight_decay = .3};
  optim::MuonWithAdamW one(
      std::vector<optim::MuonWithAdamW::Group>{{of.hidden, muon}, {of.others, adamw}});
  const optim::MuonParameters divided = optim::muon_parameters(apart);
  optim::Muon first(divided.hidden, muon);
  optim::AdamW second(divided.others, adamw);
  for (int step = 0; step < 4; ++step) {
    for (size_t i = 0; i < apart.size(); ++i) {
      apart[i].second.set_grad(randn(apart[i].second.shape(), rng));
      together[i].second.set_grad(apart[i].second.grad().clone());
    }
    for (optim::Optimizer* o :
         {static_cast<optim::Optimizer*>(&one), static_cast<optim::Optimizer*>(&first),
          static_cast<optim::Optimizer*>(&second)}) {
      o->set_lr_factor(1.0 / (1 + step));
      o->step();
    }
    if (step == 1) {  // another optimizer loads the common state
      optim::MuonWithAdamW other(
          std::vector<optim::MuonWithAdamW::Group>{{of.hidden, muon}, {of.others, adamw}});
      other.load_state_dict(one.state_dict());
      CHECK(other.state_dict().size() == 4 * 2 + 7 * 3);
    }
  }
  test::check_same(apart, together);
  CHECK(error_of([&] {
          optim::MuonWithAdamW(std::vector<optim::MuonWithAdamW::Group>{{of.others, muon}});
        }).find("it is neither a matrix") != std::string::npos);
  CHECK(contains(error_of([&] {
                   optim::MuonWithAdamW(std::vector<optim::MuonWithAdamW::Group>{
                       {of.others, optim::AdamWOptions{.state_bits = 8}}});
                 }),
                 "must have 32 bits, it has 8"));
}

TEST_CASE("optimizers: invalid settings are errors that name them") {
  const NamedTensors p = {{"w", leaf(ones({2, 2}))}};
  CHECK(contains(error_of([&] { optim::Lion(p, {.beta2 = 1}); }), "Lion: betas"));
  CHECK(contains(error_of([&] { optim::NAdam(p, {.momentum_decay = -1}); }),
                 "NAdam: momentum_decay"));
  CHECK(contains(error_of([&] { optim::RAdam(p, {.eps = -1}); }), "RAdam: betas"));
  CHECK(contains(error_of([&] { optim::Lamb(p, {.beta1 = -1}); }), "Lamb: betas"));
  CHECK(contains(error_of([&] { optim::Adafactor(p, {.d = 0}); }), "Adafactor: the bound d"));
  CHECK(contains(error_of([&] { optim::Adafactor(p, {.beta2_decay = .8}); }), "beta2_decay"));
  CHECK(contains(error_of([&] { optim::Muon(p, {.ns_steps = 100}); }), "Muon: ns_steps"));
}

}  // namespace tern::test_more_optim
