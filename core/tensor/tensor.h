// Tensor: a handle on a strided array. Copies of a handle share the elements, as in PyTorch. Ops
// are in ops.h, gradients in autograd.h.
//
// Threads may use different tensors at the same time, and may read one tensor at the same time. Two
// threads must not build one graph, or run it backward, at the same time. The graphs of several
// threads may share leaves (backward() in autograd.h), which must live until these passes end.
// Scopes such as NoGradGuard and observers such as Profile hold for the thread in which they begin.
#pragma once

#include <concepts>
#include <iosfwd>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
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

/// What Tensor::wrap cannot tell from the pointer and the shape.
struct WrapOptions {
  /// In elements, one for each axis, of any sign; none: row-major without gaps. Those of axes with
  /// one element do not matter.
  std::optional<Strides> strides = {};
  /// Keeps the memory alive. Released when the last tensor and the last graph that use it are gone,
  /// by the thread that lets go. Its deleter must not throw, and must not wait for a lock that a
  /// thread may hold while it computes. To call a function instead:
  /// std::shared_ptr<void>(nullptr, [=](void*) { give_back(frame); }). None: the memory outlives
  /// them all by other means.
  std::shared_ptr<const void> owner = {};
};

/// [[nodiscard]]: ops do not change their operands, so a call whose result is unused does nothing.
class [[nodiscard]] Tensor {
 public:
  /// An undefined tensor, without shape and elements. Means "none" in optional arguments.
  Tensor() = default;
  explicit Tensor(detail::Ref<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;

  /// A tensor on foreign memory, such as a picture of OpenCV, a matrix of Eigen or an array of
  /// NumPy, without a copy. `data` points to the element at index 0, 0, ...; T is float, double,
  /// int64_t or uint8_t.
  ///
  ///   auto picture = std::make_shared<cv::Mat>(cv::imread("cat.png"));  // (H, W, 3), by rows
  ///   Tensor x = Tensor::wrap(picture->ptr(), {picture->rows, picture->cols, 3},
  ///                           {.strides = Strides{int64_t(picture->step1()), 3, 1},
  ///                            .owner = picture});
  ///
  /// - A pointer to const: the tensor and its views refuse every write by an Error: in-place ops,
  ///   mutable_data, optimizers, load_state. Gradients can flow to it.
  /// - Else both sides see each other's writes. Elements that share memory (a stride of 0, windows)
  ///   can be read and not written, as in every tensor.
  /// - Backward notices that tern has written to a saved tensor, through this tensor or its views.
  ///   Announce writes from outside by increment_version(), before or after them. The tape does not
  ///   see others, nor those through a second wrap of the same memory.
  /// - Threads: as for every tensor, nobody may write while an op reads.
  /// - The memory does not count in memory_stats() and summaries, nor towards set_memory_cap(), and
  ///   is never reused for results.
  ///
  /// Error: a null pointer (unless there are no elements), an address that is no multiple of the
  /// element's size, a wrong number of strides, or a layout that leaves the address space. Sizes
  /// are taken on trust: strides that lead out of the memory cannot be noticed.
  template <class T>
  static Tensor wrap(T* data, const Shape& shape, WrapOptions options = {}) {
    using Element = std::remove_const_t<T>;
    static_assert(is_element<Element>,
                  "Tensor::wrap: elements are float, double, int64_t or uint8_t; copy others");
    return wrap_memory(const_cast<Element*>(data), std::is_const_v<T>, shape, dtype_of<Element>,
                       std::move(options));
  }

  /// y = x makes y another handle on the elements of x.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// x[0] = y and narrow(x, 1, 0, 2) = 0 write into the elements of the temporary, as copy_ and
  /// fill_ do. Error if nothing else shares these elements: the values would be lost.
  const Tensor& operator=(const Tensor& values) &&;
  const Tensor& operator=(Scalar value) &&;
  /// Error if nothing else shares the elements of this temporary: a write to them would be lost.
  void check_shared() const;

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

  /// All elements in row-major order, where they are. Error unless the tensor is contiguous. Only
  /// for tensors that have a name: the elements of a temporary are gone before they are used.
  template <class T>
  std::span<const T> span() const& {
    check_contiguous("span");
    return {data<T>(), static_cast<size_t>(numel())};
  }
  /// As span(), to write in place, with the rules of mutable_data().
  template <class T>
  std::span<T> mutable_span() const& {
    check_contiguous("mutable_span");
    return {mutable_data<T>(), static_cast<size_t>(numel())};
  }
  template <class T>
  std::span<const T> span() && = delete;
  template <class T>
  std::span<T> mutable_span() && = delete;

  /// The value of a tensor with one element, converted to T. Error if T is an integer type that
  /// cannot hold it; fractions are truncated.
  template <class T = double>
  T item() const {
    check_one_element();
    return dispatch(dtype(), [&]<class S>() {
      using Limits = std::numeric_limits<T>;
      constexpr bool narrower = !std::is_integral_v<S> || sizeof(T) < sizeof(S) ||
                                (std::is_unsigned_v<T> && std::is_signed_v<S>) ||
                                (sizeof(T) == sizeof(S) && std::is_unsigned_v<S>);
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && narrower)
        check_item(static_cast<double>(*data<S>()), static_cast<double>(Limits::min()),
                   2 * static_cast<double>(Limits::max() / 2 + 1));
      return static_cast<T>(*data<S>());
    });
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
  template <std::floating_point Number>
  void operator[](Number) const = delete;  // x[1.5]

  /// Whether operations on this tensor are recorded for backward.
  bool requires_grad() const { return defined() && static_cast<bool>(impl_->node()); }
  /// Makes it a leaf of the graph, or an ordinary tensor again. The state at the time of backward
  /// counts: a leaf that is frozen then gets no gradient, and a leaf that was frozen and unfrozen
  /// before gets it. The result of a recorded op requires a gradient already and stays what it is;
  /// to freeze it is an Error.
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
  /// Announces an in-place write by `op`: increments the version. Error if the memory is read-only
  /// (see wrap). In grad mode, Error if the tensor requires a gradient or shares elements with one
  /// that does.
  void begin_write(const char* op) const;
  /// Announces a write from outside of tern (see wrap): a backward pass that saved the elements
  /// fails, instead of computing with the new ones.
  void increment_version() const { impl().storage->bump_version(); }
  /// Only the check for read-only memory, for writes to several tensors that must not fail halfway.
  void check_writable(const char* op) const;

 private:
  detail::TensorImpl& impl() const {
    if (!impl_) fail_undefined();
    return *impl_;
  }
  [[noreturn]] static void fail_undefined();
  void check_type(DType wanted) const;
  void check_one_element() const;
  static void check_item(double value, double least, double end);
  void check_contiguous(const char* member) const;
  static Tensor wrap_memory(void* data, bool read_only, const Shape& shape, DType dtype,
                            WrapOptions options);
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
