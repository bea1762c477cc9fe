// The tape as the author of an op sees it. An op computes its result into a Fresh and turns it
// into a Tensor with record(), giving the vector-Jacobian product (VJP) beside it:
//
//   Tensor exp(const Tensor& x) {
//     Fresh y(x.shape(), x.dtype());
//     kernels::exp(...);
//     return record("exp", y, {x}, [y = save(y)](const Tensor& dy) { return dy * y.get(); });
//   }
//
// Only record() and not_differentiable() make tensors, so a gradient cannot get lost silently.
// The VJP is written in public ops: differentiating it again then just works. Where it calls a
// fused backward kernel, that kernel is an op of its own.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "tern/core/tensor.h"

namespace tern {

/// The gradients a VJP returns, one per input; undefined where there is none.
using Gradients = std::vector<Tensor, pool::Allocator<Tensor>>;

class Wants;

/// A recorded op: what made a tensor, and how to send a gradient back to the inputs.
class Node : public Counted, public pool::Pooled {
 public:
  Node(const char* name, const Shape& shape, DType dtype);
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Gradients of the inputs from the gradient of the output.
  virtual Gradients vjp(const Tensor& dy, const Wants& wants) = 0;
  /// Frees what was saved; vjp must not be called afterwards.
  virtual void release() noexcept = 0;
  virtual bool released() const { return false; }
  virtual bool is_leaf() const { return false; }

  const char* name;
  uint64_t sequence;                                          ///< newer nodes have larger numbers
  Shape shape;                                                ///< of the output
  DType dtype;                                                ///< of the output
  std::vector<Ref<Node>, pool::Allocator<Ref<Node>>> inputs;  ///< null: wants no gradient
  Tensor pending;                                             ///< the engine's: gradient so far
  uint64_t mark = 0;          ///< the engine's: last run that needs it
  Node* next_dead = nullptr;  ///< links nodes that wait to be freed
};

/// Where the gradient of a leaf is gathered.
class LeafNode final : public Node {
 public:
  explicit LeafNode(TensorImpl* owner);
  Gradients vjp(const Tensor&, const Wants&) override { return {}; }
  void release() noexcept override {}
  bool is_leaf() const override { return true; }
  TensorImpl* owner;  ///< null once the tensor is gone
  Tensor grad;
};

/// Which inputs' gradients are asked for; a VJP may skip the others.
class Wants {
 public:
  Wants(const Node& node, uint64_t run, bool to_leaves)
      : node_(node), run_(run), to_leaves_(to_leaves) {}
  bool operator[](int input) const;
  /// The gradient that input has gathered so far, if the VJP may add to it in place (it is
  /// contiguous, nobody else holds it, and no graph of the backward pass is wanted); undefined
  /// otherwise. A VJP that has added its share returns an undefined gradient for that input.
  Tensor accumulator(int input) const;

 private:
  const Node& node_;
  uint64_t run_;
  bool to_leaves_;
};

/// The result of an op before it is recorded: fresh memory, or a view of an input's.
class Fresh {
 public:
  /// New contiguous memory, not initialised.
  Fresh(const Shape& shape, DType dtype);
  /// The elements of `x` seen through another layout.
  static Fresh view(const Tensor& x, const Layout& layout);
  /// The elements of a tensor that was computed without recording.
  static Fresh adopt(const Tensor& value);

  const Layout& layout() const { return impl_->layout; }
  const Shape& shape() const { return layout().shape; }
  DType dtype() const { return impl_->dtype; }
  int64_t numel() const { return layout().numel(); }
  template <class T>
  T* data() const {
    return static_cast<T*>(impl_->storage->data()) + layout().offset;
  }
  const Ref<TensorImpl>& ref() const { return impl_; }

 private:
  explicit Fresh(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  Ref<TensorImpl> impl_;
};

/// A tensor kept for the backward pass. get() fails if it was written to in between.
class Saved {
 public:
  Saved() = default;  ///< holds nothing; get() gives an undefined tensor
  Saved(Tensor t, bool is_output);
  Tensor get() const;

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
  bool is_output_ = false;
};

/// Keeps an input (undefined is allowed).
inline Saved save(const Tensor& input) { return Saved(input, false); }
/// Keeps the output (without a cycle: the node does not own itself).
Saved save(const Fresh& output);

/// Whether an op on these inputs will be recorded: grad mode is on and one requires a gradient.
bool recording(std::initializer_list<std::reference_wrapper<const Tensor>> inputs);
bool recording(std::span<const Tensor> inputs);

namespace detail {

template <class Vjp>
class OpNode final : public Node {
 public:
  OpNode(const char* name, const Fresh& out, Vjp vjp)
      : Node(name, out.shape(), out.dtype()), vjp_(std::move(vjp)) {}
  Gradients vjp(const Tensor& dy, const Wants& wants) override {
    if constexpr (std::is_invocable_v<Vjp, const Tensor&, const Wants&>) {
      return collect((*vjp_)(dy, wants));
    } else {
      return collect((*vjp_)(dy));
    }
  }
  void release() noexcept override { vjp_.reset(); }
  bool released() const override { return !vjp_.has_value(); }

 private:
  static Gradients collect(Gradients g) { return g; }
  static Gradients collect(Tensor g) { return Gradients(1, std::move(g)); }
  std::optional<Vjp> vjp_;
};

Tensor finish(Fresh out, Ref<Node> node);
void connect(Node& node, const Tensor& input);

}  // namespace detail

/// Turns the result of an op into a tensor. `vjp` is called as vjp(dy) or vjp(dy, wants) and
/// returns the gradient of the single input (a Tensor) or of all (Gradients); a gradient may have
/// the shape the input was broadcast to: the engine sums it back. Undefined inputs are allowed.
template <class Vjp>
Tensor record(const char* name, Fresh out,
              std::initializer_list<std::reference_wrapper<const Tensor>> inputs, Vjp vjp) {
  if (!is_float(out.dtype()) || !recording(inputs)) return detail::finish(std::move(out), {});
  Ref<Node> node(new detail::OpNode<Vjp>(name, out, std::move(vjp)));
  node->inputs.reserve(inputs.size());
  for (const Tensor& t : inputs) detail::connect(*node, t);
  return detail::finish(std::move(out), std::move(node));
}

template <class Vjp>
Tensor record(const char* name, Fresh out, std::span<const Tensor> inputs, Vjp vjp) {
  if (!is_float(out.dtype()) || !recording(inputs)) return detail::finish(std::move(out), {});
  Ref<Node> node(new detail::OpNode<Vjp>(name, out, std::move(vjp)));
  node->inputs.reserve(inputs.size());
  for (const Tensor& t : inputs) detail::connect(*node, t);
  return detail::finish(std::move(out), std::move(node));
}

/// The result of an op that has no gradient by its nature: integers, comparisons, new constants.
Tensor not_differentiable(Fresh out);

/// A VJP for fused backward kernels: going through them again throws and names `op`.
inline auto no_second_derivative(const char* op) {
  return [op](const Tensor&) -> Gradients {
    fail(fmt::format("{}: its fused backward has no second derivative", op));
  };
}

}  // namespace tern
