// Compares a program's numbers with PyTorch's (tests/reference/make_consumer.py).
#pragma once

#include <tern/tern.h>

/// The tensors whose names begin with `prefix`, named without it.
inline tern::NamedTensors part(const tern::SafeTensors& file, const std::string& prefix) {
  tern::NamedTensors out;
  for (const auto& [name, t] : file.tensors)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), t);
  return out;
}

/// Checks that two f64 tensors differ only by rounding: at most 1e-9 of the largest element.
inline void expect(const std::string& what, const tern::Tensor& got, const tern::Tensor& want) {
  tern::check(got.defined() && got.dtype() == want.dtype() && got.shape() == want.shape(),
              "{}: no {} {}", what, want.dtype(), want.shape());
  const double largest = tern::max(tern::abs(want)).item();
  const double worst = tern::max(tern::abs(got - want)).item();
  tern::check(worst <= 1e-9 * largest, "{}: {} apart, of {}", what, worst, largest);
}

/// Compares the gradient of objective(), then its losses in ten optimizer steps, with the file.
template <class Objective, class Optimizer>
void expect_training(const tern::SafeTensors& file, const tern::NamedTensors& trained,
                     Objective objective, Optimizer& optimizer) {
  const tern::Tensor want = file.find("trace");
  for (int64_t step = 0; step < want.numel(); ++step) {
    optimizer.zero_grad();
    const tern::Tensor loss = objective();
    loss.backward();
    if (step == 0)
      for (const auto& [name, t] : trained) expect(name, t.grad(), file.find("grad." + name));
    optimizer.step();
    expect("loss", loss, want[step]);
  }
}
