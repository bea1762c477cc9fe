// Recurrent networks and cells: names, padded lengths, states, gradients. A layer equals its cell
// step by step.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"

namespace tern::test_rnn {
using nn::Recurrent;

namespace {

constexpr RnnKind kKinds[] = {RnnKind::tanh, RnnKind::relu, RnnKind::gru, RnnKind::lstm};

Recurrent network(RnnKind kind, Rng& rng, const nn::RnnOptions& options) {
  Recurrent net(kind, 3, 4, rng, options);
  nn::to(net, DType::f64);
  return net;
}

nn::RnnState random_state(RnnKind kind, int64_t layers, int64_t batch, Rng& rng) {
  const Shape shape{layers, batch, 4};
  Tensor h = randn(shape, rng, DType::f64);
  return {h, kind == RnnKind::lstm ? randn(shape, rng, DType::f64) : Tensor()};
}

nn::RnnState row(const nn::RnnState& s, int64_t b) {
  auto one = [&](const Tensor& t) { return t.defined() ? narrow(t, 1, b, 1) : t; };
  return {one(s.h), one(s.c)};
}

bool close(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.shape() == b.shape() && all_close(a, b, 1e-12, 1e-12);
}

bool close(const nn::RnnState& a, const nn::RnnState& b) {
  return close(a.h, b.h) && close(a.c, b.c);
}

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> out;
  for (const auto& [name, t] : tensors) out.push_back(name);
  return out;
}

}  // namespace

TEST_CASE("rnn: names, shapes and initial values are torch.nn's") {
  Rng rng(1);
  nn::Gru gru(5, 16, rng, {.layers = 2, .bidirectional = true});
  std::vector<std::string> want;
  for (std::string end : {"_l0", "_l0_reverse", "_l1", "_l1_reverse"})
    for (std::string start : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
      want.push_back(start + end);
  NamedTensors parameters = nn::named_parameters(gru);
  CHECK(names(parameters) == want);
  CHECK(parameters[0].second.shape() == Shape{48, 5});
  CHECK(parameters[8].second.shape() == Shape{48, 32});
  CHECK(parameters[9].second.shape() == Shape{48, 16});
  for (const auto& [name, t] : parameters) {
    const double largest = max(abs(t)).item();
    CHECK(largest <= 0.25);
    CHECK(largest > 0.2);
  }
  nn::Lstm lstm(5, 16, rng, {.bias = nn::Bias::no});
  CHECK(names(nn::named_parameters(lstm)) ==
        std::vector<std::string>{"weight_ih_l0", "weight_hh_l0"});
  CHECK(nn::named_parameters(lstm)[0].second.shape() == Shape{64, 5});
  nn::LstmCell cell(5, 16, rng);
  CHECK(names(nn::named_parameters(cell)) ==
        std::vector<std::string>{"weight_ih", "weight_hh", "bias_ih", "bias_hh"});
}

TEST_CASE("rnn: a row of a padded batch equals that sequence alone") {
  const std::vector<int64_t> lengths = {4, 1, 6, 0};
  for (RnnKind kind : kKinds)
    for (bool with_state : {false, true}) {
      Rng rng(2);
      Recurrent net = network(kind, rng, {.layers = 2, .bidirectional = true});
      Tensor x = randn({4, 6, 3}, rng, DType::f64);
      nn::RnnState start = with_state ? random_state(kind, 4, 4, rng) : nn::RnnState();
      nn::RnnOutput all = net(x, {start, tensor(lengths, 4)});
      CHECK(all.output.shape() == Shape{4, 6, 8});
      for (int64_t b = 0; b < 4; ++b) {
        const int64_t n = lengths[static_cast<size_t>(b)];
        Tensor alone = narrow(narrow(x, 0, b, 1), 1, 0, n);
        nn::RnnOutput want = net(alone, {row(start, b)});
        CHECK(close(narrow(narrow(all.output, 0, b, 1), 1, 0, n), want.output));
        CHECK(sum(abs(slice(select(all.output, 0, b), 0, n, {}))).item() == 0);
        CHECK(close(row(all.state, b), want.state));
      }
    }
}

TEST_CASE("rnn: elements after a row's length change nothing") {
  for (RnnKind kind : kKinds) {
    Rng rng(3);
    Recurrent net = network(kind, rng, {.layers = 2, .bidirectional = true});
    Tensor lengths = tensor({2, 5}, {2}, DType::i64);
    Tensor x = randn({2, 5, 3}, rng, DType::f64), other = x.clone(), odd = x.clone();
    {
      NoGradGuard guard;
      copy_(slice(select(other, 0, 0), 0, 2, {}), randn({3, 3}, rng, DType::f64) * 100);
      const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
      copy_(slice(select(odd, 0, 0), 0, 2, {}), tensor({nan, inf, -inf}, DType::f64));
    }
    std::vector<std::vector<double>> seen[3];
    for (int i = 0; i < 3; ++i) {
      Tensor in = (i == 0 ? x : i == 1 ? other : odd).clone().set_requires_grad();
      nn::zero_grad(net);
      nn::RnnOutput out = net(in, {.lengths = lengths});
      (sum(square(out.output)) + sum(out.state.h)).backward();
      seen[i].push_back(out.output.to_vector<double>());
      seen[i].push_back(in.grad().to_vector<double>());
      CHECK(sum(abs(slice(select(in.grad(), 0, 0), 0, 2, {}))).item() == 0);
      for (const Tensor& p : nn::parameters(net)) seen[i].push_back(p.grad().to_vector<double>());
    }
    CHECK(seen[0] == seen[1]);
    CHECK(seen[0] == seen[2]);
  }
}

TEST_CASE("rnn: a layer equals its cell step by step") {
  Rng rng(4);
  Tensor x = randn({2, 5, 3}, rng);
  auto copy = [](const nn::RnnParameters& from, nn::RnnParameters& to) {
    to.weight_ih = from.weight_ih;
    to.weight_hh = from.weight_hh;
    to.bias_ih = from.bias_ih;
    to.bias_hh = from.bias_hh;
  };
  nn::Lstm lstm(3, 4, rng);
  nn::LstmCell lstm_step(3, 4, rng);
  nn::Gru gru(3, 4, rng);
  nn::GruCell gru_step(3, 4, rng);
  nn::Rnn rnn(3, 4, rng, {}, nn::RnnNonlinearity::relu);
  nn::RnnCell rnn_step(3, 4, rng, nn::Bias::yes, nn::RnnNonlinearity::relu);
  copy(lstm.parameters[0], lstm_step.parameters);
  copy(gru.parameters[0], gru_step.parameters);
  copy(rnn.parameters[0], rnn_step.parameters);
  Tensor of_lstm = lstm(x).output, of_gru = gru(x).output, of_rnn = rnn(x).output;
  nn::RnnState s;
  Tensor g, r;
  for (int64_t t = 0; t < 5; ++t) {
    Tensor in = select(x, 1, t);
    s = lstm_step(in, s);
    g = gru_step(in, g);
    r = rnn_step(in, r);
    CHECK(all_close(s.h, select(of_lstm, 1, t), 1e-5, 1e-6));
    CHECK(all_close(g, select(of_gru, 1, t), 1e-5, 1e-6));
    CHECK(all_close(r, select(of_rnn, 1, t), 1e-5, 1e-6));
  }
  CHECK(all_close(s.c, select(lstm(x).state.c, 0, 0), 1e-5, 1e-6));
}

TEST_CASE("rnn: continues from a state") {
  for (RnnKind kind : kKinds) {
    Rng rng(5);
    Recurrent net = network(kind, rng, {.layers = 3});
    Tensor x = randn({2, 7, 3}, rng, DType::f64);
    nn::RnnOutput all = net(x), first = net(narrow(x, 1, 0, 4));
    nn::RnnOutput none = net(narrow(x, 1, 0, 0), {first.state});
    CHECK(none.output.shape() == Shape{2, 0, 4});
    nn::RnnOutput rest = net(narrow(x, 1, 4, 3), {none.state});
    CHECK(close(cat({first.output, rest.output}, 1), all.output));
    CHECK(close(rest.state, all.state));
    REQUIRE(all.state.h.requires_grad());
    CHECK_FALSE(all.state.detach().h.requires_grad());
    CHECK(close(all.state.detach(), all.state));
  }
}

TEST_CASE("rnn: gradients reach inputs, states and every weight") {
  for (RnnKind kind : kKinds) {
    Rng rng(6);
    Recurrent net = network(kind, rng, {.layers = 2, .bidirectional = true});
    Tensor x = randn({2, 3, 3}, rng, DType::f64);
    nn::RnnState s = random_state(kind, 4, 2, rng);
    Tensor lengths = tensor({3, 2}, {2}, DType::i64);
    std::vector<Tensor> in = {x, s.h};
    if (s.c.defined()) in.push_back(s.c);
    for (const Tensor& t : in) t.set_requires_grad();
    auto run = [&](const std::vector<Tensor>& v) {
      nn::RnnState start{v[1], v.size() > 2 ? v[2] : Tensor()};
      nn::RnnOutput out = net(v[0], {start, lengths});
      Tensor y = cat({flatten(out.output), flatten(out.state.h)});
      return out.state.c.defined() ? cat({y, flatten(out.state.c)}) : y;
    };
    CHECK_NOTHROW(gradcheck(run, in));
    std::vector<Tensor> reached = leaves(sum(run(in)));
    CHECK(reached.size() == nn::parameters(net).size() + in.size());
    for (const Tensor& p : nn::parameters(net))
      CHECK(std::any_of(reached.begin(), reached.end(),
                        [&](const Tensor& t) { return t.ref() == p.ref(); }));
  }
}

TEST_CASE("rnn: dropout acts between layers, only in training") {
  Rng rng(7);
  Tensor x = randn({2, 5, 3}, rng);
  nn::Gru two(3, 4, rng, {.layers = 2, .dropout = 0.5});
  CHECK(two(x).output.to_vector<float>() != two(x).output.to_vector<float>());
  nn::set_training(two, false);
  CHECK(two(x).output.to_vector<float>() == two(x).output.to_vector<float>());
}

TEST_CASE("rnn: errors") {
  Rng rng(8);
  nn::Gru gru(3, 4, rng);
  CHECK_THROWS_WITH_AS(gru(zeros({2, 3})),
                       doctest::Contains("x must be (B, T, 3), got (2, 3); unsqueeze"), Error);
  CHECK_THROWS_WITH_AS(gru(zeros({2, 5, 3}), {.state = {zeros({1, 3, 4}), {}}}),
                       doctest::Contains("(1, 2, 4), got (1, 3, 4)"), Error);
  CHECK_THROWS_WITH_AS(gru(zeros({2, 5, 3}), {.lengths = tensor({5, 6}, {2}, DType::i64)}),
                       doctest::Contains("lengths[1] is 6"), Error);
  CHECK_THROWS_WITH_AS(gru(zeros({2, 5, 3}), {.lengths = tensor({5, 5}, {2})}),
                       doctest::Contains("lengths is f32"), Error);
  CHECK_THROWS_WITH_AS(gru(zeros({2, 5, 3}, DType::f64)),
                       doctest::Contains("x is f64, the weights f32"), Error);
  const Tensor h = zeros({1, 2, 4});
  CHECK_THROWS_WITH_AS(gru(zeros({2, 5, 3}), {.state = {h, h}}),
                       doctest::Contains("only an LSTM's state has c"), Error);
  CHECK_THROWS_WITH_AS(nn::Lstm(3, 4, rng)(zeros({2, 5, 3}), {.state = {.h = h}}),
                       doctest::Contains("has h and c, and only h is given"), Error);
  nn::LstmCell cell(3, 4, rng);
  CHECK_THROWS_WITH_AS(cell(zeros({2, 3}), {.c = zeros({2, 4})}),
                       doctest::Contains("only c is given"), Error);
  CHECK_THROWS_WITH_AS(cell(zeros({2, 3}), {zeros({2, 4}), zeros({1, 4})}),
                       doctest::Contains("the state must be (2, 4), got (1, 4)"), Error);
  CHECK_THROWS_WITH_AS(nn::Gru(3, 4, rng, {.layers = 0}), doctest::Contains("at least one layer"),
                       Error);
  CHECK_THROWS_WITH_AS(nn::Lstm(3, 4, rng, {.dropout = 0.9}),
                       doctest::Contains("between layers, and there is one"), Error);
  for (const double p : {1.7, 1.0, -3.0})
    CHECK_THROWS_WITH_AS(nn::Gru(3, 4, rng, {.layers = 2, .dropout = p}),
                         doctest::Contains("p must be in [0, 1)"), Error);
}

}  // namespace tern::test_rnn
