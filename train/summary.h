// What a model is and what training it takes, before anything is computed or allocated:
//
//   fmt::print("{}", summary(model, Shape{64, 3, 32, 32}).text());
//   fmt::print("{}", summary(bert, Like{{8, 128}, DType::i64}).text());
//   fmt::print("{}", summary(model, [&] { return cross_entropy(model(x), y); }).text());
//
//   module                       op          output            weights    GFLOP  saved MB
//   model                                    (64, 17, 512)   4,739,872    9.801     301.1
//     patch_embed.proj           conv2d      (64, 512, 4, 4)    98,816    0.201       2.1
//     ...
//   total                                                    4,979,360    9.811     303.0
//   forward 9.81 GFLOP, backward 19.62 GFLOP
//   memory of a training step, MB     most   at the peak
//   weights                           19.9          19.9
//   ...
//   peak                                           402.6   in linear backward in model.blocks...
//
// The model may be made in a ShapeOnlyScope (core/base/shape_only.h), and then takes no memory
// itself. It is as before in the end: gradients, generators, buffers, modes.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tern/core/ops/ops.h"
#include "tern/core/tools/step_cost.h"
#include "tern/nn/module_ref.h"
#include "tern/optim/optimizer.h"

namespace tern {

/// An input of that shape and type, of zeros.
struct Like {
  Shape shape;
  DType dtype = DType::f32;
};

struct SummaryOptions {
  /// Left out: AdamW.
  std::function<std::unique_ptr<optim::Optimizer>(const NamedTensors& parameters)> optimizer = {};
  int64_t accumulate = 1;  ///< forward and backward passes before a step
};

struct Summary {
  StepCost cost;
  NamedTensors parameters;  ///< without their elements' meaning: their names and shapes

  int64_t num_parameters() const;
  /// The tree of modules alone, those of a list that are alike once ("blocks.0-2: 3 x").
  std::string tree() const;
  /// Operations and memory alone.
  std::string costs() const;
  std::string text() const { return tree() + costs(); }
};

/// Of a training step that is given in parts: of a loop of one's own, with averages, clipping, ...
Summary summary_of_step(const nn::ModuleRef& model, TrainingStep step);

namespace detail {

template <class T>
const T& to_input(const T& input) {
  return input;
}
inline Tensor to_input(const Like& like) { return zeros(like.shape, like.dtype); }
inline Tensor to_input(const Shape& shape) { return zeros(shape); }

Summary summarize(const nn::ModuleRef& model, std::function<void()> batch,
                  std::function<Tensor()> loss, const SummaryOptions& options);

template <class F>
concept GivesTensor = requires(F f) {
  { f() } -> std::convertible_to<Tensor>;
};

}  // namespace detail

/// `loss()` is a forward pass, made of tensors of any kind.
template <class M, detail::GivesTensor F>
Summary summary(const M& model, F loss, const SummaryOptions& options = {}) {
  return detail::summarize(const_cast<M&>(model), {}, std::move(loss), options);
}

/// Of sum(model(inputs...)): an input is a Shape of f32, a Like, or the thing itself.
template <class M, class... In>
requires(!detail::GivesTensor<In> && ...) Summary summary(const M& model, const In&... inputs) {
  using Made = std::tuple<std::decay_t<decltype(detail::to_input(inputs))>...>;
  auto made = std::make_shared<std::optional<Made>>();
  return detail::summarize(
      const_cast<M&>(model), [&, made] { made->emplace(detail::to_input(inputs)...); },
      [&, made] {
        return std::apply([&](const auto&... in) -> Tensor { return model(in...); }, **made);
      },
      {});
}

}  // namespace tern
