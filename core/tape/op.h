// Scopes of ops, and observers of them. Every op opens a scope before its kernel runs and closes it
// afterwards. The backward pass does the same around each VJP. A scope costs a few nanoseconds. It
// - names the place in errors: `decoder.layers.2.linear1: linear: the input (5, 7) does not ...`;
// - sends events to this thread's observers: Profile, AnomalyDetector, or your own.
//
//   struct Count : Observer {
//     int ops = 0;
//     void begin(const OpScope&) override { ++ops; }
//   } count;
//   {
//     ObserverScope watching(count);
//     model(x);
//   }
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "tern/core/base/error.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

enum class Pass { forward, backward };

/// A property of an op beside its inputs: a whole number, a number, axes, or a tensor that is no
/// input because it gets no gradient (indices, masks).
using Note = std::variant<int64_t, double, Dims, const Tensor*>;

/// Whether an observer watches this thread's ops.
bool observed();

/// A running op of this thread. Scopes nest: ops and VJPs run other ops.
class OpScope : private detail::ErrorPlace {
 public:
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  const char* name() const { return name_; }  ///< "linear"; for a VJP the name of its op
  Pass pass() const { return pass_; }         ///< backward: a VJP, or an op that a VJP runs
  bool is_vjp() const { return node_ != nullptr; }
  /// Whether the op writes to its first input: add_, fill_, operator+=.
  bool in_place() const {
    constexpr std::string_view kNames[] = {"fill_",      "copy_",      "add_",       "mul_",
                                           "operator+=", "operator-=", "operator*=", "operator/="};
    return std::ranges::find(kNames, std::string_view(name_)) != std::end(kNames);
  }
  const detail::Node* node() const { return node_; }  ///< whose VJP it is; null for an op
  /// The inputs: the operands, including undefined ones. A VJP has one input: the gradient of the
  /// output. Valid only before the VJP runs.
  int num_inputs() const { return static_cast<int>(pointers_ ? count_ : list_.size()); }
  const Tensor& input(int i) const {
    return pointers_ ? *pointers_[i] : list_[static_cast<size_t>(i)];
  }
  /// Only for a VJP, before it runs: the gradient that input `i` of its op has gathered so far, or
  /// undefined. While the handle exists, its elements stay: gradients are added in new memory.
  int num_gathered() const;
  Tensor gathered(int i) const;
  /// The module that the op belongs to: "decoder.layers.2.linear1"; empty if unknown. It comes from
  /// a parameter among the operands that a module walk has named (nn::named_parameters and others),
  /// or from a ModuleScope. An op inside another op has that op's module. Under an observer, any
  /// other op has the module of its newest operand. A checkpoint has none: it runs modules.
  std::string module() const;
  /// The enclosing scope; null for the outermost.
  const OpScope* outer() const { return outer_; }
  /// For the op itself: tells the observers how it was called, before its result:
  /// op.note("axis", axis, "mask", mask). Values that come again under a name continue a list.
  /// "result" is a tensor that other ops made for this op. Without observers it costs one test.
  template <class T, class... More>
  void note(const char* name, const T& value, const More&... more) {
    if (!observed()) return;
    if constexpr (std::is_same_v<T, Tensor>)
      tell_note(name, &value);
    else if constexpr (std::is_integral_v<T>)
      tell_note(name, static_cast<int64_t>(value));
    else
      tell_note(name, value);
    if constexpr (sizeof...(more) > 0) note(more...);
  }

 protected:
  /// `node`: the node whose VJP runs; null for an op. `to_leaves`: gradients go to the leaves'
  /// grad().
  explicit OpScope(const char* name, const detail::Node* node = nullptr, bool to_leaves = false);
  ~OpScope();
  void set_inputs(const Tensor* const* inputs, int count) {
    pointers_ = inputs;
    count_ = count;
  }
  void set_inputs(std::span<const Tensor> inputs) { list_ = inputs; }
  /// Tells the observers that the op begins. REQUIRES: the inputs are set.
  void open() {
    if (observed()) tell_begin();
  }
  /// Tells the observers of a result. `index` counts several results.
  void announce(const Tensor& result, int index) {
    if (observed()) tell_made(result, index);
  }

 private:
  /// Calls fn(observer, number) for the scopes numbered from `newest` down to `oldest`.
  template <class Fn>
  void tell(uint64_t newest, uint64_t oldest, Fn fn);
  void tell_begin();
  void tell_note(const char* name, const Note& value);
  void tell_made(const Tensor& result, int index);
  void pass_module_on(const Tensor& result) const;
  std::string where() const override;  // its own module only

  const char* name_;
  const detail::Node* node_;
  Pass pass_;
  bool to_leaves_;
  const Tensor* const* pointers_ = nullptr;  // to count_ inputs; null: list_ has the inputs
  int count_ = 0;
  std::span<const Tensor> list_;
  const OpScope* outer_;
  // Numbers of the newest and oldest ObserverScope that saw the op begin; 0: none did.
  uint64_t told_newest_ = 0, told_oldest_ = 0;
};

/// A named part of a program, for observers: `Region region("optimizer");`
class Region : public OpScope {
 public:
  explicit Region(const char* name) : OpScope(name) { open(); }
  ~Region() = default;
};

/// Marks the code of a layer: ops in this scope that have no parameters of their own belong to the
/// module of `parameter`. For layers that check their input, or that compute with views of their
/// weights. `parts`: the number of parts of the parameter's name to drop, 1 for "weight", 2 for
/// "proj.weight".
class ModuleScope : private detail::ErrorPlace {
 public:
  [[nodiscard]] explicit ModuleScope(const Tensor& parameter, int parts = 1);
  ~ModuleScope();

 private:
  friend class OpScope;
  std::string where() const override;
  const Tensor& parameter_;
  int parts_;
  const ModuleScope* outer_;
};

/// Watches the ops of a thread. Ops that an observer runs itself are not observed.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Called before the op's kernel runs. May throw.
  virtual void begin(const OpScope&) {}
  /// Called for each property that the op tells (OpScope::note), before its result. A tensor is
  /// valid only during the call, and may be undefined. May throw.
  virtual void noted(const OpScope&, [[maybe_unused]] const char* name,
                     [[maybe_unused]] const Note& value) {}
  /// Called for each result. `result` is a tensor of an op (index 0, 1, ... if it has several), or
  /// a VJP's gradient of input `index`. If the VJP added that gradient in place to the gathered
  /// gradient of the input, `result` is the sum. Arithmetic in place (add_, +=) makes its first
  /// input; copy_ and fill_ make nothing. May throw.
  virtual void made(const OpScope&, [[maybe_unused]] const Tensor& result,
                    [[maybe_unused]] int index) {}
  /// Called when the op is done or has thrown. Follows every begin() that did not throw, in reverse
  /// order, unless the observer's scope has ended.
  virtual void end(const OpScope&) noexcept {}
};

/// While one exists, `observer` sees every op of this thread that begins. Several may exist at the
/// same time. They may end in any order, also while an op runs or inside calls of their observers.
/// REQUIRES: a scope ends in the thread where it began.
class ObserverScope {
 public:
  [[nodiscard]] explicit ObserverScope(Observer& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  friend class OpScope;
  Observer& observer_;
  ObserverScope* outer_;
  uint64_t number_;  // increases with every new scope of a thread
};

/// The innermost op that this thread runs, or null.
const OpScope* current_op();

/// The name that a module walk gave this parameter or buffer, such as
/// "decoder.layers.2.linear1.weight". Empty if it has no name.
std::string parameter_name(const Tensor& t);

/// Sets the name, for module walks. An existing name that ends in "." + `name` stays: walking a
/// part of a model does not shorten names. An empty `name` removes it.
void set_parameter_name(const Tensor& t, const std::string& name);

namespace detail {
/// The label of a tensor or of none, while other threads may set it.
Ref<PathLabel> label_of(const TensorImpl* t);
}  // namespace detail

}  // namespace tern
