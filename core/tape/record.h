// The tape for authors of ops. An op opens its scope with its inputs and computes its result into a
// Fresh. record() turns that into a Tensor and takes the vector-Jacobian product (VJP):
//
//   Tensor exp(const Tensor& x) {
//     Op op("exp", x);
//     Fresh y(x.shape(), x.dtype());
//     kernels::exp(...);
//     return op.record(y, [y = save(y)](const Tensor& dy) { return dy * y.get(); });
//   }
//
// Only record() and not_differentiable() make tensors, so a gradient cannot get lost silently. A
// VJP is written in public ops, so it can be differentiated again. If it calls a fused backward
// kernel, that kernel is an op of its own. A VJP that wants to reuse the memory of dy for its
// result takes `Consumed dy`.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tern/core/tape/node.h"
#include "tern/core/tape/op.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

class Fresh;

/// The gradient of a result, for a VJP that may overwrite it.
class Consumed {
 public:
  explicit Consumed(Tensor dy) : dy_(std::move(dy)) {}
  const Tensor& get() const { return dy_; }
  operator const Tensor&() const { return dy_; }  // NOLINT: implicit on purpose
  /// Moves the tensor out. This object is empty afterwards.
  Tensor take() && { return std::move(dy_); }
  /// Makes it contiguous, by a copy if necessary.
  void make_contiguous() {
    if (!dy_.is_contiguous()) dy_ = dy_.contiguous();
  }
  /// Memory for a result of the same shape and type: the gradient's own memory if it has no other
  /// owner and nothing is recorded, else new memory. A kernel must read an element of get() before
  /// it writes to the same place.
  Fresh reuse() const;

 private:
  Tensor dy_;
};

/// Tells a VJP which inputs need a gradient. It may skip the others.
class Wants {
 public:
  Wants(const detail::Node& node, uint64_t run, bool to_leaves, bool last)
      : node_(node), run_(run), to_leaves_(to_leaves), last_(last) {}
  ~Wants() { release(); }
  Wants(const Wants&) = delete;
  Wants& operator=(const Wants&) = delete;
  bool operator[](int input) const;
  /// The gradient gathered so far for this input, if the VJP may add to it in place: it is
  /// contiguous and has no other owner, no other thread adds to it, and the backward pass is not
  /// recorded. Undefined otherwise. A VJP that has added its gradient there returns an undefined
  /// one.
  Tensor accumulator(int input) const;
  /// Unlocks the leaves whose accumulators the VJP got, for other threads.
  void release() const;
  /// Whether the node will not run again. The VJP may then consume its saved tensors.
  bool last() const { return last_; }
  /// Whether the leaves' grad() gathers the gradients, as in tern::backward.
  bool to_leaves() const { return to_leaves_; }
  /// Moves the gathered gradient of an input out, even if it cannot be written to; put() returns it
  /// after additions. For a VJP that runs a backward pass of its own.
  Tensor take(int input) const;
  void put(int input, Tensor gathered) const;

 private:
  Tensor& gathered(int input) const;
  std::unique_lock<std::recursive_mutex> lock(int input) const;
  const detail::Node& node_;
  uint64_t run_;
  bool to_leaves_, last_;
  mutable std::vector<detail::LeafNode*, detail::pool::Allocator<detail::LeafNode*>> held_;
};

/// The result of an op before it is recorded: fresh memory, or a view of an input's memory.
class Fresh {
 public:
  /// New contiguous memory, not initialised.
  Fresh(const Shape& shape, DType dtype);
  /// The elements of `x` with another layout.
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
  const detail::Ref<detail::TensorImpl>& ref() const { return impl_; }

 private:
  explicit Fresh(detail::Ref<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  detail::Ref<detail::TensorImpl> impl_;
};

/// A tensor kept for the backward pass. get() fails if it was overwritten since. For an input whose
/// elements can be recomputed (RecomputeScope), it keeps the Recomputation, and get() recomputes
/// the elements.
class Saved {
 public:
  Saved() = default;  ///< holds nothing; get() gives an undefined tensor
  Saved(Tensor t, bool is_output);
  Saved(const Saved&);
  Saved(Saved&&) noexcept;
  Saved& operator=(const Saved&);
  Saved& operator=(Saved&&) noexcept;
  ~Saved();
  Tensor get() const;
  /// Error if the tensor was overwritten since, as in get().
  void check_unchanged() const;
  /// Moves the tensor out for an op that overwrites it, if its elements have no other owner. This
  /// object is empty afterwards. Otherwise returns an undefined tensor. REQUIRES: Wants::last().
  Tensor consume();
  /// The same elements without history: derivatives of get() end there.
  Saved detached() const;
  /// The depth of the chain of recomputations that get() runs; 0 if it recomputes nothing.
  int64_t remakes() const { return remade_ ? remade_->recomputation->remakes : 0; }

 private:
  struct Remade {
    Layout layout;
    DType dtype;
    detail::Ref<detail::Node> node;
    detail::Ref<detail::Recomputation> recomputation;
  };
  Tensor tensor_;
  std::optional<Remade> remade_;
  uint64_t version_ = 0;
  bool is_output_ = false;
};

namespace detail {

struct SavedShape {
  const Shape& shape;
  bool leaf;  ///< a weight, or another leaf
};
/// Error if `t`, which an op saved, was overwritten. `lent_at`: Storage::lent_at() of its elements.
void check_saved_version(const SavedShape& t, uint64_t saved, uint64_t now, uint64_t lent_at);

/// Whether a RecomputeScope is open in this thread.
bool recomputing();

template <class Make>
class RecomputationOf final : public Recomputation {
 public:
  RecomputationOf(std::vector<Saved> from, Make make)
      : from_(std::move(from)), make_(std::move(make)) {}

 private:
  Ref<Storage> make() const override {
    std::vector<Tensor> x;
    for (const Saved& s : from_) x.push_back(s.get());
    return make_(x).ref()->storage;
  }
  std::vector<Saved> from_;
  Make make_;
};

/// The inputs of a Recomputation, detached so that a result does not keep the graph behind it.
/// Empty if the chain of recomputations would be too long.
std::vector<Saved> recomputation_inputs(std::span<const Saved> from);

}  // namespace detail

/// Lets the saved `y` be replaced by make(tensors of `from`), which must give a Fresh with the same
/// layout and bits. `from` must be saved anyway. Call it if recomputing(), before recording y.
template <class Make>
void recompute_by(const Fresh& y, std::span<const Saved> from, Make make) {
  std::vector<Saved> kept = detail::recomputation_inputs(from);
  if (kept.empty()) return;
  int64_t remakes = 0;
  for (const Saved& s : kept) remakes = std::max(remakes, s.remakes());
  detail::Ref<detail::Recomputation> recomputation(
      new detail::RecomputationOf<Make>(std::move(kept), std::move(make)));
  recomputation->remakes = remakes + 1;
  y.ref()->storage->set_recomputation(std::move(recomputation));
}

/// Keeps an input, which may be undefined.
inline Saved save(const Tensor& input) { return Saved(input, false); }
/// Keeps the output, without a cycle: the node does not own itself.
Saved save(const Fresh& output);

namespace detail {

template <class Vjp>
class OpNode final : public Node {
 public:
  OpNode(const char* name, const Fresh& out, Vjp vjp)
      : Node(name, out.shape(), out.dtype()), vjp_(std::move(vjp)) {}
  Gradients vjp(Consumed&& dy, const Wants& wants) override {
    if constexpr (std::is_invocable_v<Vjp, Consumed, const Wants&>) {
      return collect((*vjp_)(std::move(dy), wants));
    } else {
      return collect((*vjp_)(std::move(dy)));
    }
  }
  void release() noexcept override { vjp_.reset(); }
  bool released() const override { return !vjp_.has_value(); }

 private:
  static Gradients collect(Gradients g) { return g; }
  static Gradients collect(Tensor g) { return Gradients(1, std::move(g)); }
  std::optional<Vjp> vjp_;
};

void connect(Node& node, const Tensor& input);

}  // namespace detail

namespace detail {
[[noreturn]] void fail_undefined(const char* op, size_t operand);
}  // namespace detail

/// Error if an operand is undefined; it names the op and the operand's number (from 1).
template <class... Tensors>
void check_defined(const char* op, const Tensors&... operands) {
  size_t operand = 0;
  ((++operand, operands.defined() ? void() : detail::fail_undefined(op, operand)), ...);
}

/// The same for a list of operands.
void check_all_defined(const char* op, std::span<const Tensor> operands);

/// Whether an op on these inputs would be recorded: grad mode is on and an input needs a gradient.
bool recording(std::initializer_list<std::reference_wrapper<const Tensor>> inputs);
bool recording(std::span<const Tensor> inputs);

/// A Tensor that is not a temporary: a temporary would be gone while the op runs.
template <class T>
concept OperandReference =
    std::is_lvalue_reference_v<T> && std::same_as<std::remove_cvref_t<T>, Tensor>;

/// The scope of one op, from its first check to its result. Keeps the inputs' addresses, so the
/// inputs must outlive it. Undefined tensors stand for omitted operands.
class Op : public OpScope {
 public:
  template <OperandReference... T>
  explicit Op(const char* name, T&&... inputs) : OpScope(name), addresses_{&inputs...} {
    static_assert(sizeof...(T) <= kMaxInputs, "give this many inputs as a span");
    set_inputs(addresses_.data(), static_cast<int>(sizeof...(T)));
    open();
  }
  Op(const char* name, std::span<const Tensor> inputs) : OpScope(name) {
    set_inputs(inputs);
    open();
  }

  /// Whether the result will be recorded: recording() of the inputs.
  bool recording() const;

  /// Turns the result into a tensor. `vjp` is called as vjp(dy) or vjp(dy, wants), where dy is a
  /// const Tensor& or a Consumed. It returns the gradient of the only input (a Tensor) or of all
  /// inputs (Gradients). A gradient may have the shape that the input was broadcast to: the engine
  /// sums it.
  template <class Vjp>
  Tensor record(Fresh out, Vjp vjp) {
    if (!is_float(out.dtype()) || !recording()) return finish(std::move(out), {});
    detail::Ref<detail::Node> node(new detail::OpNode<Vjp>(name(), out, std::move(vjp)));
    connect(*node);
    return finish(std::move(out), std::move(node));
  }

  /// The same for inputs that differ from those of the scope, such as contiguous copies.
  template <class Vjp>
  Tensor record(Fresh out, std::initializer_list<std::reference_wrapper<const Tensor>> inputs,
                Vjp vjp) {
    if (!is_float(out.dtype()) || !tern::recording(inputs)) return finish(std::move(out), {});
    detail::Ref<detail::Node> node(new detail::OpNode<Vjp>(name(), out, std::move(vjp)));
    for (const Tensor& t : inputs) detail::connect(*node, t);
    return finish(std::move(out), std::move(node));
  }

  template <class Vjp>
  Tensor record(Fresh out, std::span<const Tensor> inputs, Vjp vjp) {
    if (!is_float(out.dtype()) || !tern::recording(inputs)) return finish(std::move(out), {});
    detail::Ref<detail::Node> node(new detail::OpNode<Vjp>(name(), out, std::move(vjp)));
    for (const Tensor& t : inputs) detail::connect(*node, t);
    return finish(std::move(out), std::move(node));
  }

  /// The result of an op that cannot have a gradient: integers, comparisons, constants.
  Tensor not_differentiable(Fresh out) { return finish(std::move(out), {}); }

 private:
  static constexpr size_t kMaxInputs = 8;
  void connect(detail::Node& node) const;
  Tensor finish(Fresh out, detail::Ref<detail::Node> node);
  std::array<const Tensor*, kMaxInputs> addresses_{};
  int results_ = 0;
};

/// A tensor without history, for results that an op needs itself (a copy, a mask, statistics).
Tensor not_differentiable(Fresh out);

/// A VJP for fused backward kernels: differentiating it again throws and names `op`.
inline auto no_second_derivative(const char* op) {
  return [op](const Tensor&) -> Gradients {
    fail(fmt::format("{}: its fused backward has no second derivative", op));
  };
}

}  // namespace tern
