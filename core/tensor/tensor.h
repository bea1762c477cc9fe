// Tensor: a handle on a strided array. Copies of a handle share the elements, as in PyTorch. Ops
// are in ops.h, gradients in autograd.h.
//
// Threads may use different tensors at the same time, and may read one tensor at the same time. Two
// threads must not build one graph, or run it backward, at the same time. The graphs of several
// threads may share leaves (backward() in autograd.h).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "tern/core/base/dtype.h"
#include "tern/core/base/intrusive.h"
#include "tern/core/base/layout.h"
#include "tern/core/base/pool.h"
#include "tern/core/base/storage.h"

namespace tern {

namespace detail {

class Node;
void dispose(Node* node);

/// Connects a tensor with a part of a model: the name of a parameter ("up.weight"), or the module
/// that computed a result ("up"). See parameter_name() and OpScope::module() in op.h.
struct PathLabel : Counted {
  PathLabel(std::string t, bool p) : text(std::move(t)), of_parameter(p) {}
  std::string text;
  bool of_parameter;
};
inline void dispose(PathLabel* label) { delete label; }

/// The object behind a Tensor. Only for core itself.
struct TensorImpl : Counted, pool::Pooled {
  TensorImpl(Layout l, DType t, Ref<Storage> s);
  ~TensorImpl();
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;
  /// The node of the op that made it, or the leaf node that gathers its gradient. Null if it
  /// requires no gradient.
  const Ref<Node>& node() const { return node_; }
  void set_node(Ref<Node> node);
  /// Turns a leaf into an ordinary tensor. Graphs keep its node: unfreeze() puts the same node
  /// back, so that their gradients still arrive.
  void freeze();
  void unfreeze();  ///< REQUIRES: node() is null
  /// node(), or for a frozen leaf the node that unfreeze() would put back.
  const Ref<Node>& node_or_frozen() const { return node_ ? node_ : frozen_; }

  Layout layout;
  DType dtype;
  Ref<Storage> storage;
  Ref<PathLabel> label;  // null: unknown

 private:
  Ref<Node> node_;
  Ref<Node> frozen_;  // a frozen leaf's node
};
inline void dispose(TensorImpl* impl) { delete impl; }

}  // namespace detail

struct Scalar;

/// [[nodiscard]]: ops do not change their operands, so a call whose result is unused does nothing.
class [[nodiscard]] Tensor {
 public:
  /// An undefined tensor, without shape and elements. Means "none" in optional arguments.
  Tensor() = default;
  explicit Tensor(detail::Ref<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;

  /// y = x makes y another handle on the elements of x.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// x[0] = y and narrow(x, 1, 0, 2) = 0 write into the elements of the temporary, as copy_ and
  /// fill_ do. Error if nothing else shares these elements: the values would be lost.
  const Tensor& operator=(const Tensor& values) &&;
  const Tensor& operator=(Scalar value) &&;

  bool defined() const { return static_cast<bool>(impl_); }
  const Layout& layout() const { return impl().layout; }
  const Shape& shape() const { return layout().shape; }
  const Strides& strides() const { return layout().strides; }
  int ndim() const { return layout().ndim(); }
  int64_t numel() const { return layout().numel(); }
  /// The size of an axis; negative axes count from the end.
  int64_t size(int64_t axis) const { return shape()[normalize_axis("size", axis, ndim())]; }
  DType dtype() const { return impl().dtype; }
  bool is_contiguous() const { return layout().is_contiguous(); }

  /// A pointer to the element at index 0, 0, ... T must be the dtype's C++ type. Elements are
  /// strides() apart; call contiguous() first to read them in row-major order.
  template <class T>
  const T* data() const {
    check_type(dtype_of<T>);
    return static_cast<const T*>(impl().storage->data()) + layout().offset;
  }
  /// As data(), to write in place. The rules of in-place ops hold (see NoGradGuard).
  template <class T>
  T* mutable_data() const {
    check_type(dtype_of<T>);
    begin_write("mutable_data");
    return static_cast<T*>(impl().storage->data()) + layout().offset;
  }

  /// The value of a tensor with one element, converted to T.
  template <class T = double>
  T item() const {
    check_one_element();
    return dispatch(dtype(), [&]<class S>() { return static_cast<T>(*data<S>()); });
  }
  /// All elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const {
    Tensor c = contiguous();
    return dispatch(dtype(), [&]<class S>() {
      const S* p = c.numel() ? c.data<S>() : nullptr;
      return std::vector<T>(p, p + c.numel());
    });
  }

  Tensor to(DType dtype) const;        ///< *this if the dtype is the same
  Tensor contiguous() const;           ///< *this if already contiguous
  Tensor clone() const;                ///< a contiguous copy
  Tensor operator[](int64_t i) const;  ///< select(x, 0, i)

  /// Whether operations on this tensor are recorded for backward.
  bool requires_grad() const { return defined() && static_cast<bool>(impl_->node()); }
  /// Makes it a leaf of the graph, or an ordinary tensor again. Error if a recorded op made it. The
  /// state at the time of backward counts: a leaf that is frozen then gets no gradient, and a leaf
  /// that was frozen and unfrozen before gets it.
  const Tensor& set_requires_grad(bool on = true) const;
  /// Whether it is not the result of a recorded op.
  bool is_leaf() const;
  /// The gradient that backward() accumulated for a leaf; undefined if there is none.
  Tensor grad() const;
  /// Sets the gradient of a leaf; undefined clears it. The gradient must not have a history: a leaf
  /// that holds its own graph would never be freed.
  void set_grad(Tensor grad) const;
  /// Clears the gradient of a leaf. Does nothing if the tensor requires none.
  void zero_grad() const;
  /// The same elements without history.
  Tensor detach() const;
  /// Same as tern::backward(*this).
  void backward() const;

  const detail::Ref<detail::TensorImpl>& ref() const { return impl_; }
  const detail::Ref<detail::Node>& node() const { return impl().node(); }
  /// Announces an in-place write by `op`: increments the version. In grad mode, Error if the tensor
  /// requires a gradient or shares elements with one that does.
  void begin_write(const char* op) const;

 private:
  detail::TensorImpl& impl() const {
    if (!impl_) fail_undefined();
    return *impl_;
  }
  [[noreturn]] static void fail_undefined();
  void check_type(DType wanted) const;
  void check_one_element() const;
  void check_shared() const;
  detail::Ref<detail::TensorImpl> impl_;
};

/// The elements as text, in PyTorch's format; long axes are shortened.
std::string to_string(const Tensor& t);
/// Writes to_string(t), for std::cout << x.
std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace tern

template <>
struct fmt::formatter<tern::Tensor> {
  constexpr auto parse(fmt::format_parse_context& ctx) { return ctx.begin(); }
  auto format(const tern::Tensor& t, fmt::format_context& ctx) const {
    std::string s = tern::to_string(t);
    return std::copy(s.begin(), s.end(), ctx.out());
  }
};
