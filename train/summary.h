// Shows the modules of a model, and the operations and memory of a training step, without computing
// or allocating anything:
//
//   fmt::print("{}", summary(model, Shape{64, 3, 32, 32}).text());
//   fmt::print("{}", summary(bert, Like{{8, 128}, DType::i64}).text());
//   fmt::print("{}", summary(model, [&] { return cross_entropy(model(x), y); }).text());
//
//   module                  op          output            weights      GFLOP   saved MB
//   model                               (32, 512)       4,845,462      4.200       55.4
//     patch_embed.proj      linear      (32, 16, 512)      98,816      0.101        0.4
//     blocks.layers                     (32, 1, 512)    4,736,406      4.099       53.8
//       0-1: 2 x                        (32, 17, 512)   1,578,802      1.730       22.4
//         norm              layer_norm  (32, 17, 512)       1,024                   1.2
//     ...
//   total                                               4,979,360      4.208       55.5
//   a training step: forward 4.208 GFLOP, backward 8.316 GFLOP
//   its memory, MB                       most    at the peak
//   weights                              19.9           19.9
//   ...
//   peak                                               122.5   in matmul backward in model...
//
// GFLOP and the memory saved for the backward pass are those of one forward pass; the numbers of a
// module include its parts. An op without parameters counts for the module that made its input.
// What counts as an operation: core/tools/step_cost.h.
//
// A model made in a ShapeOnlyScope (core/base/shape_only.h) takes no memory itself. The summary
// restores the model's gradients, generators, buffers and modes.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/core/tools/step_cost.h"
#include "tern/nn/module_ref.h"
#include "tern/optim/optimizer.h"
#include "tern/optim/shards.h"
#include "tern/train/learner.h"

namespace tern {

/// An input of zeros of this shape and type.
struct Like {
  Shape shape;
  DType dtype = DType::f32;
};

struct SummaryOptions {
  std::function<void()> batch = {};  ///< makes the inputs of the loss, and keeps them
  /// Makes the optimizer; default: AdamW.
  std::function<std::unique_ptr<optim::Optimizer>(const NamedTensors& parameters)> optimizer = {};
  training::LearnerOptions learner = {.check_graph = false};  ///< clipping, averages
  int64_t accumulate = 1;  ///< forward and backward passes per step
  /// Number of ranks that share the optimizer's states (Parallel::shard_optimizer). The memory is
  /// that of the rank with the largest share.
  int64_t optimizer_ranks = 1;
};

struct Summary {
  StepCost cost;
  NamedTensors parameters;  ///< names and shapes; the elements are meaningless
  /// The load of each parameter when the optimizer is split (optim/shards.h); summary() sets it.
  std::vector<optim::ShardItem> shard_items = {};
  int64_t optimizer_ranks = 1;  ///< that of the options

  int64_t num_parameters() const;
  /// Only the tree of modules. Equal modules of a list are shown once ("blocks.0-2: 3 x").
  std::string tree() const;
  /// Only the operations and the memory.
  std::string costs() const;
  std::string text() const { return tree() + costs(); }
};

/// The summary of a training step that you give in parts (with averages, clipping, ...).
Summary summary_of_step(const nn::ModuleRef& model, TrainingStep step);

namespace detail {

template <class T>
const T& to_input(const T& input) {
  return input;
}
inline Tensor to_input(const Like& like) { return zeros(like.shape, like.dtype); }
inline Tensor to_input(const Shape& shape) { return zeros(shape); }

Summary summarize(const nn::ModuleRef& model, std::function<Tensor()> loss,
                  const SummaryOptions& options);

template <class F>
concept GivesTensor = requires(F f) {
  { f() } -> std::convertible_to<Tensor>;
};

}  // namespace detail

/// The summary of a training step with the loss `loss()`, whose inputs may be tensors of any kind.
template <class M, detail::GivesTensor F>
Summary summary(const M& model, F loss, const SummaryOptions& options = {}) {
  return detail::summarize(const_cast<M&>(model), std::move(loss), options);
}

/// The summary of a training step with the loss sum(model(inputs...)). An input is a Shape (of
/// f32), a Like, or the actual input.
template <class M, class... In>
requires(!detail::GivesTensor<In> && ...) Summary summary(const M& model, const In&... inputs) {
  using Made = std::tuple<std::decay_t<decltype(detail::to_input(inputs))>...>;
  auto made = std::make_shared<std::optional<Made>>();
  auto loss = [&, made] {
    return std::apply([&](const auto&... in) -> Tensor { return model(in...); }, **made);
  };
  auto batch = [&, made] { made->emplace(detail::to_input(inputs)...); };
  return detail::summarize(const_cast<M&>(model), loss, {.batch = batch});
}

}  // namespace tern
