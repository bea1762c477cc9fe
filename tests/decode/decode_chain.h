// A small model for decoding tests, whose results can be worked out by hand.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/sampling.h"

namespace decode_test {

using tern::Tensor;
using Tokens = std::vector<int64_t>;

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// The example of step_model.h: p(next | last). Records the batch size of every step.
struct Chain {
  Tensor table;  // logits (V, V)
  std::vector<int64_t>* batches = nullptr;
  struct State {
    int64_t sentences;
    int64_t batch() const { return sentences; }
    State select_rows(const Tensor& rows) const { return {rows.size(0)}; }
  };
  struct Step {
    Tensor logits;
    State state;
  };
  Step step(const State& state, const Tensor& tokens) const {
    CHECK(!tern::grad_enabled());
    CHECK(tokens.shape() == tern::Shape{state.sentences});
    if (batches) batches->push_back(state.sentences);
    return {index_select(table, 0, tokens), state};
  }
};

/// A chain with the same distribution at every step.
inline Chain constant(const std::vector<double>& logits) {
  const auto n = static_cast<int64_t>(logits.size());
  return {tern::expand(tern::tensor(logits, {1, n}), {n, n})};
}

}  // namespace decode_test
