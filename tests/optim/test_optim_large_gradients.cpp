// Gradients from 1e-30 to 1e30: optimizers whose moments keep nothing forget a large one, and rules
// for whole parameters and 8-bit states stay finite.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/optim/optim.h"

namespace tern::test_optim_large_gradients {

namespace {

using Doubles = std::vector<double>;

const Doubles kSizes = {1e-30, 1e-20, 1e-15, 1e-8, 1e-3, 1,    1e3,
                        1e8,   1e12,  1e15,  1e18, 1e20, 1e25, 1e30};

/// A matrix (2, 3) whose gradient is `size` times a pattern.
Tensor pattern(double size) { return tensor(Doubles{1, -2, 0.5, 3, 0.25, -1}, {2, 3}) * size; }

/// Compares the step for the gradient pattern(last) after a step for pattern(first) with the same
/// step of a new optimizer: if the moments keep nothing, both are equal.
template <class Rule>
void check_forgets(const Rule& rule, DType type) {
  for (double first : kSizes)
    for (double last : {-1.0, 1e-3, 1e12}) {
      CAPTURE(std::string(Rule::name));
      CAPTURE(first);
      Tensor p = pattern(0.5).to(type).set_requires_grad();
      optim::OptimizerOf<Rule> optimizer(std::vector<Tensor>{p}, rule);
      p.set_grad(pattern(first).to(type));
      optimizer.step();
      Tensor fresh = p.detach().clone().set_requires_grad();
      optim::OptimizerOf<Rule> other(std::vector<Tensor>{fresh}, rule);
      p.set_grad(pattern(last).to(type));
      fresh.set_grad(pattern(last).to(type));
      optimizer.step();
      other.step();
      CHECK(p.to_vector<double>() == fresh.to_vector<double>());
      CHECK(isfinite(p).to_vector<double>() == Doubles(6, 1));
    }
}

TEST_CASE("with betas of 0 a step does not depend on earlier gradients, to the bit") {
  for (DType type : {DType::f32, DType::f64}) {
    check_forgets(optim::AdamOptions{.beta1 = 0, .beta2 = 0}, type);
    check_forgets(optim::AdamWOptions{.beta1 = 0, .beta2 = 0}, type);
    check_forgets(optim::RAdamOptions{.beta1 = 0, .beta2 = 0}, type);
    check_forgets(optim::NAdamOptions{.beta1 = 0, .beta2 = 0}, type);
    check_forgets(optim::LionOptions{.beta1 = 0, .beta2 = 0}, type);
    check_forgets(optim::LambOptions{.beta1 = 0, .beta2 = 0, .always_adapt = true}, type);
    check_forgets(optim::RmsPropOptions{.alpha = 0}, type);
    check_forgets(optim::RmsPropOptions{.alpha = 0, .eps = 1, .centered = true}, type);
    for (bool nesterov : {false, true})
      check_forgets(optim::MuonOptions{.momentum = 0, .nesterov = nesterov}, type);
  }
}

/// Takes one step for each size of the gradient; true if the parameter stays finite.
template <class Rule>
bool stays_finite(const Rule& rule, const Shape& shape, const Doubles& sizes) {
  Rng rng(7);
  Tensor p = randn(shape, rng).set_requires_grad();
  optim::OptimizerOf<Rule> optimizer(std::vector<Tensor>{p}, rule);
  for (double size : sizes) {
    // The sizes of the elements differ by up to 10^10.
    const Tensor spread = exp(uniform(shape, -23, 0, rng));
    p.set_grad(randn(shape, rng) * spread * size);
    optimizer.step();
  }
  return all(isfinite(p)).item() != 0;
}

template <class Rule>
void check_finite(const Rule& rule, const Shape& shape) {
  for (double size : kSizes) {
    CAPTURE(std::string(Rule::name));
    CAPTURE(size);
    CHECK(stays_finite(rule, shape, {size, size, 1, 1e-30}));
    CHECK(stays_finite(rule, shape, {1, size, 1e-3, size}));
  }
}

TEST_CASE("Lamb, Muon, Adafactor and 8-bit states stay finite") {
  for (double beta1 : {0.0, 0.9})
    for (double beta2 : {0.0, 0.99})
      for (double decay : {0.0, 1.0}) {
        check_finite(optim::LambOptions{.beta1 = beta1, .beta2 = beta2, .weight_decay = decay},
                     {40});
        check_finite(
            optim::AdamOptions{
                .beta1 = beta1, .beta2 = beta2, .weight_decay = decay, .state_bits = 8},
            {70, 83});
        check_finite(
            optim::AdamWOptions{
                .beta1 = beta1, .beta2 = beta2, .weight_decay = decay, .state_bits = 8},
            {70, 83});
      }
  for (double momentum : {0.0, 0.95, 1.0})
    for (bool nesterov : {false, true})
      check_finite(optim::MuonOptions{.momentum = momentum, .nesterov = nesterov}, {6, 4});
  for (const Shape& shape : {Shape{40}, Shape{6, 4}, Shape{2, 6, 4}})
    for (double beta2_decay : {-1.0, -0.8, 0.0})
      for (double eps1 : {1e-30, 1.0})
        for (double eps2 : {0.0, 1.0})
          check_finite(
              optim::AdafactorOptions{.beta2_decay = beta2_decay, .eps1 = eps1, .eps2 = eps2},
              shape);
}

TEST_CASE("with betas of 0 an 8-bit state gives the bits of a 32-bit state") {
  Rng rng(11);
  const Tensor start = randn({70, 83}, rng);
  auto trained = [&](int bits) {
    Rng draws(12);
    Tensor p = start.clone().set_requires_grad();
    optim::AdamW optimizer(std::vector<Tensor>{p}, {.beta1 = 0, .beta2 = 0, .state_bits = bits});
    for (double size : {1e12, 1.0, 1e30, 1e-8}) {
      p.set_grad(randn({70, 83}, draws) * size);
      optimizer.step();
    }
    return p.to_vector<double>();
  };
  CHECK(trained(8) == trained(32));
}

TEST_CASE("an average of weights with decay 0 equals the weights") {
  const Tensor w = tensor(Doubles{1e12, -1e30, 3}).to(DType::f32);
  optim::Ema ema({{"w", w}}, {.decay = 0});
  copy_(w, tensor(Doubles{-1, 0.25, 1e-20}));
  ema.update();
  CHECK(ema.averages()[0].second.to_vector<double>() == w.to_vector<double>());
}

}  // namespace

}  // namespace tern::test_optim_large_gradients
