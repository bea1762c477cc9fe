// The zoo: the models of models/, small, a row for each model with each option that changes its
// graph. A property of all models is one loop over these rows (test_zoo.cpp; of decoding in
// tests/decode/test_decode_models.cpp). A new model or a new option is a row in zoo.cpp.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/nn.h"

namespace tern::test {

using Tensors = std::vector<Tensor>;

// ---- A model without its type ------------------------------------------------------------------

struct AnyStep;

/// The state of a model that computes step by step; a value. Fits decode/step_model.h.
struct AnyState {
  std::function<AnyStep(const Tensor& next)> step;
  std::function<int64_t()> rows;
  std::function<AnyState(const Tensor& rows)> select;  ///< empty if the model has no such function

  int64_t batch() const { return rows(); }
  AnyState select_rows(const Tensor& chosen) const { return select(chosen); }
};
struct AnyStep {
  Tensor logits;
  AnyState state;
};

/// step(state, next) returns .logits and .state.
template <class S, class Step>
AnyState any_state(S state, Step step) {
  const auto held = std::make_shared<const S>(std::move(state));
  AnyState out;
  out.rows = [held] { return held->batch(); };
  if constexpr (requires { held->select_rows(Tensor()); })
    out.select = [=](const Tensor& rows) { return any_state(held->select_rows(rows), step); };
  out.step = [=](const Tensor& next) {
    auto y = step(*held, next);
    return AnyStep{y.logits, any_state(std::move(y.state), step)};
  };
  return out;
}

/// A module and a value, as the model in it.
class AnyModel {
 public:
  /// call(model, inputs) returns the outputs: one or a vector, without the undefined ones.
  /// start(model, inputs) returns the AnyState after the inputs; nullptr: there is none.
  template <class M, class Call, class Start>
  AnyModel(std::shared_ptr<M> m, Call call, Start start)
      : fields_(*m), copy_([=] { return AnyModel(std::make_shared<M>(*m), call, start); }) {
    call_ = [=](const Tensors& x) {
      Tensors out;
      nn::detail::collect(out, call(*m, x));
      return out;
    };
    if constexpr (!std::is_null_pointer_v<Start>)
      start_ = [=](const Tensors& x) { return start(*m, x); };
  }
  AnyModel(const AnyModel& other) : AnyModel(other.copy_()) {}
  AnyModel(AnyModel&&) = default;

  Tensors operator()(const Tensors& inputs) const { return call_(inputs); }
  AnyState start(const Tensors& inputs) const { return start_(inputs); }
  AnyStep step(const AnyState& state, const Tensor& next) const { return state.step(next); }
  static void fields(auto& m, auto&& visit) { visit("", m.fields_); }

 private:
  nn::ModuleRef fields_;
  std::function<AnyModel()> copy_;
  std::function<Tensors(const Tensors&)> call_;
  std::function<AnyState(const Tensors&)> start_;
};

// ---- Rows --------------------------------------------------------------------------------------

/// In shapes: the number of examples of a batch.
inline constexpr int64_t kRows = -1;

struct Input {
  Shape shape;
  int64_t words = 0;  ///< tokens below this number; 0: floating numbers
};

struct Model {
  std::string name;
  std::function<AnyModel(Rng&, nn::Recompute)> make;
  std::vector<Input> inputs;
  std::vector<Shape> outputs;
  int64_t weights = -1;             ///< by the family's function of the options; -1: it has none
  bool random = false;              ///< training draws random numbers
  bool batch_norm = false;          ///< in training the rows of a batch influence each other
  bool recomputes = false;          ///< has the option
  double selective_saves = 0.05;    ///< share of memory that Recompute::selective saves in a step
  bool pair = false;                ///< has a pair of options: stands in zoo_pairs()
  std::vector<std::string> frozen;  ///< parameters that never get a gradient

  // Sequences. They run along axis 1.
  int causal = -1;           ///< this input: outputs at t see none of its elements after t
  bool steps = false;        ///< also computes step by step along this input
  int lengths = -1;          ///< the input that holds lengths, i64 (rows), which may be undefined
  std::vector<int> padded;   ///< the inputs that end at these lengths
  std::vector<int> along;    ///< the outputs that run along them
  bool sees_padding = true;  ///< without lengths the padding changes the outputs
};

/// Each model with each option by itself.
const std::vector<Model>& zoo();
/// gMLP for images and texts with each pair of options, for properties that take little time.
const std::vector<Model>& zoo_pairs();
/// Models of such sizes that activations take most of the memory of a step. Models that have loss()
/// return it in place of outputs.
const std::vector<Model>& zoo_large();

/// check(row, rng) for every row. A failure names the row.
template <class Check>
void for_rows(const std::vector<Model>& rows, Check&& check) {
  for (const Model& row : rows) {
    CAPTURE(row.name);
    Rng rng(7);
    check(row, rng);
  }
}

/// Inputs with `rows` examples. The lengths of the first is that of the input, then they differ.
Tensors inputs_of(const Model& row, int64_t rows, Rng& rng, DType dtype = DType::f32);
/// In evaluation, with weights moved away from 0 and 1, where errors would not show.
AnyModel evaluated(const Model& row, Rng& rng, DType dtype = DType::f32);
/// The sum of the means of the squares of all outputs.
Tensor loss_of(const Tensors& outputs);
/// x with the first `size` elements of the input along which the model is causal.
Tensors begun(const Model& row, Tensors x, int64_t size);
/// Example i of x by itself, without its padding and without lengths.
Tensors example(const Model& row, const Tensors& x, int64_t i);

}  // namespace tern::test
