// Checks that tests of layers and models share.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tern/nn/module.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::test {

/// The loss depends on every parameter of the model, and on nothing else.
template <class M>
void check_leaves(const Tensor& loss, const M& model) {
  std::vector<Tensor> reached = leaves(loss);
  NamedTensors parameters = nn::named_parameters(model);
  CHECK(reached.size() == parameters.size());
  for (const auto& p : parameters)
    CHECK_MESSAGE(std::any_of(reached.begin(), reached.end(),
                              [&](const Tensor& t) { return t.ref() == p.second.ref(); }),
                  p.first);
}

/// Replaces every padding token: position t of row b with t >= lengths[b] gets another token of [0,
/// words).
inline Tensor repad(const Tensor& tokens, const Tensor& lengths, int64_t words) {
  Tensor behind = le(unsqueeze(lengths, 1), arange(0, tokens.size(1)));
  return where(behind, remainder(tokens + 1, words), tokens);
}

/// The numbers of a result, followed by those of every parameter's gradient.
template <class M>
std::vector<float> with_gradients(const Tensor& result, const M& model) {
  std::vector<float> out = result.to_vector<float>();
  for (const Tensor& p : nn::parameters(model))
    for (float v : p.grad().to_vector<float>()) out.push_back(v);
  return out;
}

/// A block that computes only its first tokens of x (B, T, D), in f64, gives their values and
/// gradients.
template <class Block>
void check_first_tokens(const Block& block, const Tensor& x) {
  std::vector<Tensor> leaves = nn::parameters(block);
  leaves.push_back(leaf(x));
  CHECK(close(value_and_gradients(block.first(leaves.back(), 2), leaves),
              value_and_gradients(narrow(block(leaves.back()), 1, 0, 2), leaves), 1e-12, 1e-12));
}

}  // namespace tern::test
