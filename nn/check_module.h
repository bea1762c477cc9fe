// Tests your own layer or model in one call:
//
//   Rng rng(0);
//   nn::check_module(MyLayer(8, rng), {randn({3, 5, 8}, rng)});
//
// One Error reports all faults, one per line, with the parameter and the element. Checks:
// - copies: a copy gives the same output, and writing to its weights does not change the original;
// - fields: the output depends on every named parameter and on no other (a forgotten field);
// - gradients, in f64, of every floating input and parameter, against central differences, in
//   evaluation and in training (with the same random numbers every time);
// - strides: transposed inputs, inputs with gaps and reversed inputs give the same outputs and
//   gradients as contiguous ones;
// - batch: a row gives the same result within a batch and alone;
// - determinism: evaluation gives the same bits twice, draws no random numbers and changes no
//   buffer; training gives the same bits twice from the same generators and buffers;
// - other weights: weights set by WeightsInstead give the same outputs and gradients, to the bit,
//   as the module's own weights with these values;
// - save and load: a model that was trained for a step, saved as safetensors and loaded into
//   another one gives the same bits there, in evaluation and in training.
#pragma once

#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tern/core/tape/autograd.h"
#include "tern/nn/module.h"

namespace tern::nn {

/// Whether rows of a batch influence each other.
enum class BatchRule {
  independent,
  mixed_in_training,  ///< batch norm
  mixed               ///< or there are no rows
};

/// Marks an input or output without a batch axis.
constexpr int kNoBatch = std::numeric_limits<int>::min();

struct CheckModuleOptions {
  BatchRule batch = BatchRule::independent;
  std::vector<int> input_axes = {};   ///< batch axis of each input, or kNoBatch; default 0
  std::vector<int> output_axes = {};  ///< the same for outputs
  /// Parameters, or modules with all their parameters, that these inputs need not reach.
  std::vector<std::string> unused = {};
  /// How to compare gradients. `most` is the number of elements per input and parameter, 0: all.
  GradcheckOptions gradient = {.most = 8};
};

namespace detail {

using Tensors = std::vector<Tensor>;

inline void collect(Tensors& out, const Tensor& t) {
  if (t.defined()) out.push_back(t);
}
inline void collect(Tensors& out, const Tensors& ts) {
  for (const Tensor& t : ts) collect(out, t);
}
template <class... T>
void collect(Tensors& out, const std::tuple<T...>& ts) {
  std::apply([&](const auto&... t) { (collect(out, t), ...); }, ts);
}
template <class A, class B>
void collect(Tensors& out, const std::pair<A, B>& ts) {
  collect(out, ts.first);
  collect(out, ts.second);
}

/// A module that can be called, walked and copied.
struct AnyModule {
  std::function<Tensors(const Tensors& inputs)> call;
  std::function<Slots()> fields;
  std::function<AnyModule()> copy;
};

template <class M, class Fn>
AnyModule any_module(std::shared_ptr<const M> module, Fn fn) {
  static_assert(std::is_copy_constructible_v<M>, "check_module works on copies of the module");
  return {[module, fn](const Tensors& inputs) {
            Tensors out;
            collect(out, fn(*module, inputs));
            return out;
          },
          [module] { return walk(*module); },
          [module, fn] { return any_module<M>(std::make_shared<M>(*module), fn); }};
}

[[noreturn]] void fail_call(size_t inputs);

template <class M>
Tensors call(const M& module, const Tensors& x) {
  Tensors out;
  auto with = [&](const auto&... in) {
    if constexpr (requires(Tensors & o) { collect(o, module(in...)); })
      return collect(out, module(in...));
    else
      fail_call(sizeof...(in));
  };
  if (x.size() == 1) {
    with(x[0]);
  } else if (x.size() == 2) {
    with(x[0], x[1]);
  } else if (x.size() == 3) {
    with(x[0], x[1], x[2]);
  } else {
    fail_call(x.size());
  }
  return out;
}

void check_module(const AnyModule& module, const Tensors& inputs,
                  const CheckModuleOptions& options);

}  // namespace detail

/// Calls fn(module, inputs) on copies of the module, which does not change. fn returns a Tensor, or
/// several in a vector, pair or tuple (undefined ones are ignored). Inputs may have any type and
/// may be undefined. REQUIRES: at least two rows if there is a batch; inputs where the module has
/// no kinks (a relu at 0) or jumps: use random ones.
template <class M, class Fn>
requires std::invocable < Fn, const M&, const std::vector<Tensor>
& > void check_module(const M& module, Fn fn, const std::vector<Tensor>& inputs,
                      const CheckModuleOptions& options = {}) {
  // Does not own the caller's module.
  std::shared_ptr<const M> here(std::shared_ptr<const M>(), &module);
  detail::check_module(detail::any_module<M>(std::move(here), std::move(fn)), inputs, options);
}

/// The same for module(inputs...) with up to three tensors.
template <class M>
void check_module(const M& module, const std::vector<Tensor>& inputs,
                  const CheckModuleOptions& options = {}) {
  check_module(
      module, [](const M& m, const std::vector<Tensor>& x) { return detail::call(m, x); }, inputs,
      options);
}

}  // namespace tern::nn
