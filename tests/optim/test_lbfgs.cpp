// L-BFGS beside PyTorch 2.15 in f64 (numbers of torch.optim.LBFGS), its properties and its errors.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/optim/lbfgs.h"

namespace tern::test_lbfgs {
namespace {

using optim::Lbfgs;
using optim::LbfgsOptions;

// Rosenbrock's valley in four dimensions.
struct Valley {
  Tensor x = tensor(std::vector<double>{-3, 2, .5, 4}).set_requires_grad();
  Tensor operator()() const {
    const Tensor head = narrow(x, 0, 0, 3), tail = narrow(x, 0, 1, 3);
    const Tensor loss = sum(100 * square(tail - square(head)) + square(1 - head));
    loss.backward();
    return loss;
  }
};

void check_near(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

// The losses before each step, the numbers of directions and evaluations after it, the last point.
struct Reference {
  std::vector<double> losses;
  std::vector<int64_t> iterations, evaluations;
  std::vector<double> point;
};

void check_run(const LbfgsOptions& options, const Reference& expected) {
  const Valley valley;
  Lbfgs optimizer({{"x", valley.x}}, options);
  std::vector<double> losses;
  std::vector<int64_t> iterations, evaluations;
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    losses.push_back(optimizer.step(valley));
    iterations.push_back(optimizer.iterations());
    evaluations.push_back(optimizer.evaluations());
  }
  check_near(losses, expected.losses);
  CHECK(iterations == expected.iterations);
  CHECK(evaluations == expected.evaluations);
  check_near(valley.x.to_vector<double>(), expected.point);
}

}  // namespace

TEST_CASE("Lbfgs: PyTorch's losses, counts and points") {
  SUBCASE("line search, a short history") {
    check_run({.max_iter = 7, .history_size = 3, .strong_wolfe = true},
              {{7548.5, 5.551406356895074, 5.529270969567006, 4.695459614877748},
               {6, 13, 20, 26},
               {8, 16, 25, 33},
               {-1.002903395943002, 1.007785562185234, 0.9940133857638164, 0.9773408197936404}});
  }
  SUBCASE("line search, few evaluations") {
    check_run({.max_iter = 50, .max_eval = 9, .strong_wolfe = true},
              {{7548.5, 5.57221129215932, 4.972962140168502, 4.129741426381938},
               {7, 13, 20, 26},
               {9, 19, 28, 37},
               {-0.9126403347641797, 0.8380711563306035, 0.7043310842139441, 0.49358797341139216}});
  }
  SUBCASE("line search from much too far") {
    check_run({.lr = 300, .strong_wolfe = true},
              {{7548.5, 55.16058852334073, 5.107097773175248, 3.8923132316776505},
               {5, 13, 18, 24},
               {26, 52, 78, 104},
               {-0.8130752507275305, 0.672071444311898, 0.4549211309169792, 0.2035365518437067}});
  }
  SUBCASE("steps of the length lr") {
    check_run({.lr = 0.05, .max_iter = 4, .history_size = 2},
              {{7548.5, 5986.8945987181605, 3786.7118302763333, 2214.143016683422},
               {4, 8, 12, 16},
               {4, 8, 12, 16},
               {-2.3058833474049494, 1.791947737443898, 1.6584475623494477, 3.7598745239237235}});
  }
}

TEST_CASE("Lbfgs: fits a curve in f32 with a network, whose frozen part stays") {
  Rng rng(1);
  nn::Linear first(1, 16, rng), second(16, 1, rng);
  const Tensor weight = first.weight, bias = second.bias, frozen = bias.clone();
  bias.set_requires_grad(false);
  const Tensor x = reshape(linspace(-2, 2, 40), {40, 1}), y = sin(3 * x);
  NamedTensors parameters = nn::named_parameters(first, "first");
  for (const auto& p : nn::named_parameters(second, "second")) parameters.push_back(p);
  Lbfgs optimizer(parameters, {.strong_wolfe = true});
  double loss = 0;
  NoGradGuard no_grad;  // step() records all the same
  for (int i = 0; i < 10; ++i)
    loss = optimizer.step([&] {
      const Tensor value = mse_loss(second(tanh(first(x))), y);
      value.backward();
      return value;
    });
  CHECK(loss < 1e-3);
  CHECK(bias.to_vector<float>() == frozen.to_vector<float>());
  CHECK(!weight.grad().defined());
}

TEST_CASE("Lbfgs: a loaded state continues with the same bits") {
  for (const int before : {0, 1, 3}) {
    CAPTURE(before);
    const LbfgsOptions options{.max_iter = 3, .history_size = 4, .strong_wolfe = true};
    const Valley a, b;
    Lbfgs first({{"x", a.x}}, options), second({{"x", b.x}}, options);
    for (int i = 0; i < before; ++i) first.step(a);
    {
      NoGradGuard no_grad;
      copy_(b.x, a.x);
    }
    second.load_state_dict(first.state_dict());
    for (int i = 0; i < 3; ++i) {
      const double expected = first.step(a), got = second.step(b);
      CHECK(got == expected);
    }
    CHECK(b.x.to_vector<double>() == a.x.to_vector<double>());
    CHECK(second.evaluations() == first.evaluations());
  }
}

TEST_CASE("Lbfgs: a state that does not fit changes nothing") {
  const Valley a, b;
  Lbfgs optimizer({{"x", a.x}}), other({{"x", b.x}});
  optimizer.step(a);
  NamedTensors state = optimizer.state_dict();
  state.pop_back();  // old_stps
  CHECK_THROWS_WITH_AS(other.load_state_dict(state), doctest::Contains("old_stps"), Error);
  CHECK(other.iterations() == 0);
  CHECK(other.step(b) == 7548.5);
}

TEST_CASE("Lbfgs: a search steps back from losses that are not finite") {
  // The logarithm is NaN beyond 3, where the first trial lands.
  const Tensor x = tensor(std::vector<double>{2.9}).set_requires_grad();
  const auto evaluate = [&] {
    const Tensor loss = sum(square(x - 1)) - sum(log(3 - x));
    loss.backward();
    return loss;
  };
  Lbfgs optimizer({{"x", x}}, {.lr = 1e3, .strong_wolfe = true});
  for (int i = 0; i < 5; ++i) optimizer.step(evaluate);
  CHECK(x.item<double>() == doctest::Approx(2 - std::sqrt(1.5)));
  {
    NoGradGuard no_grad;
    fill_(x, 2);
  }
  Lbfgs longer({{"x", x}}, {.lr = 1e3});
  CHECK_THROWS_WITH_AS(longer.step(evaluate), doctest::Contains("a smaller lr"), Error);
}

TEST_CASE("Lbfgs: a function that throws in a search leaves no pair of an unfinished move") {
  const Valley valley;
  Lbfgs optimizer({{"x", valley.x}}, {.strong_wolfe = true});
  optimizer.step(valley);
  int left = 2;
  CHECK_THROWS_WITH_AS(optimizer.step([&] {
    check(left-- > 0, "out of data");
    return valley();
  }),
                       "out of data", Error);
  for (const auto& [name, t] : optimizer.state_dict())
    if (name == "t") CHECK(t.item<double>() == 0);
  const double before = optimizer.step(valley);
  CHECK(optimizer.step(valley) < before);
}

TEST_CASE("Lbfgs: refuses what would be wrong without a word") {
  const Valley valley;
  const Tensor f32 = ones({2}).set_requires_grad();
  CHECK_THROWS_WITH_AS(Lbfgs({{"x", valley.x}, {"y", f32}}), doctest::Contains("'x' is f64"),
                       Error);
  CHECK_THROWS_AS(Lbfgs(NamedTensors{}), Error);
  CHECK_THROWS_AS(Lbfgs({{"x", valley.x}}, {.lr = 0}), Error);
  CHECK_THROWS_AS(Lbfgs({{"x", valley.x}}, {.max_iter = 0}), Error);
  CHECK_THROWS_AS(Lbfgs({{"x", valley.x}}, {.tolerance_grad = -1}), Error);
  Lbfgs optimizer({{"x", valley.x}});
  CHECK_THROWS_WITH_AS(optimizer.step([&] { return sum(valley.x); }),
                       doctest::Contains("must call backward()"), Error);
  CHECK_THROWS_WITH_AS(optimizer.step([&] { return valley.x; }), doctest::Contains("one element"),
                       Error);
  const nn::Parameter stray(ones({4}, DType::f64));
  CHECK_THROWS_WITH_AS(optimizer.step([&] {
    const Tensor loss = sum(valley.x * stray);
    loss.backward();
    return loss;
  }),
                       doctest::Contains("belongs to no module"), Error);
}

}  // namespace tern::test_lbfgs
