// Weights as values. A Tensor is a handle: copying it shares its elements. A model is a value:
// copying it must copy its weights. Parameter and Buffer make the difference.
#pragma once

#include <iosfwd>

#include "tern/core/tensor/tensor.h"

namespace tern::nn {

/// A tensor with value semantics. Copying copies the elements. Assigning writes into the existing
/// elements if shape and type are the same (so optimizers and averages still see them), else takes
/// new elements; from a Tensor of another shape it is an Error. A default-constructed one is
/// undefined and means "none" (a Linear without bias): the module walk skips it. A moved-from one
/// is undefined too, but using, copying or walking it is an Error that names it.
///
/// It is a leaf, so a history would end there. In grad mode it therefore refuses a tensor that
/// requires a gradient, as copy_ does: pass its detach().
class OwnedTensor {
 public:
  /// The tensor that ops use: its own, or the replacement in a WeightsInstead.
  const Tensor& tensor() const;
  operator const Tensor&() const { return tensor(); }  // NOLINT: implicit on purpose
  /// Its own tensor, which module walks, optimizers and files see.
  const Tensor& own() const {
    if (moved_) [[unlikely]]
      fail_moved();
    return tensor_;
  }
  bool defined() const { return tensor_.defined(); }
  const Shape& shape() const { return own().shape(); }
  int64_t size(int64_t axis) const { return own().size(axis); }
  int64_t numel() const { return own().numel(); }
  DType dtype() const { return own().dtype(); }
  Tensor grad() const { return own().grad(); }
  void zero_grad() const { own().zero_grad(); }
  friend std::ostream& operator<<(std::ostream& out, const OwnedTensor& t) {
    return out << t.own();
  }
  /// Converts the elements. Older handles keep the old elements, and optimizers refuse them.
  void convert(DType dtype);

 protected:
  OwnedTensor() = default;
  /// Takes over the elements; `value` must not be used afterwards.
  explicit OwnedTensor(const Tensor& value, bool requires_grad);
  OwnedTensor(const OwnedTensor& other);
  OwnedTensor(OwnedTensor&& other) noexcept;
  OwnedTensor& operator=(const OwnedTensor& other);
  OwnedTensor& operator=(OwnedTensor&& other);
  ~OwnedTensor() = default;
  void assign(const Tensor& value);
  void write(const Tensor& value);

 private:
  Tensor release() noexcept;
  [[noreturn]] void fail_moved() const;
  Tensor tensor_;
  bool moved_ = false;  // tensor_ was moved away and not assigned since
  tern::detail::Ref<tern::detail::PathLabel> moved_name_;
  Shape moved_shape_;
};

/// A trained weight: a leaf that requires a gradient.
class Parameter : public OwnedTensor {
 public:
  Parameter() = default;
  Parameter(const Parameter&) = default;
  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(const Parameter&) & = default;
  Parameter& operator=(Parameter&&) & = default;
  explicit Parameter(const Tensor& value) : OwnedTensor(value, true) {}
  /// Copies the elements of `value` (same shape) into this parameter.
  Parameter& operator=(const Tensor& value) & {
    assign(value);
    return *this;
  }
};

/// State of a model that is not trained: running statistics, fixed tables.
class Buffer : public OwnedTensor {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = default;
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(const Buffer&) & = default;
  Buffer& operator=(Buffer&&) & = default;
  explicit Buffer(const Tensor& value) : OwnedTensor(value, false) {}
  Buffer& operator=(const Tensor& value) & {
    assign(value);
    return *this;
  }
};

}  // namespace tern::nn
