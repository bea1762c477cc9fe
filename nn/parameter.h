// Weights as values. A Tensor is a handle, so that copying one shares its elements; a model is a
// value, so that copying one must copy its weights. Parameter and Buffer make the difference.
#pragma once

#include <iosfwd>

#include "tern/core/tensor/tensor.h"

namespace tern::nn {

/// A tensor with value semantics: copying copies the elements; assigning writes into the existing
/// elements where shape and type are the same (optimizers and averages go on seeing them), else
/// takes new ones. Default-constructed it is undefined and stands for "none" (a Linear without
/// bias): the module walk passes it by. One that was moved from is undefined, too, but to use it,
/// copy it or walk over it is an Error that says which it was.
///
/// It is a leaf, so that the history of what it is made of or assigned would end there: in grad
/// mode a tensor that requires a gradient is refused, as by copy_; give its detach().
class OwnedTensor {
 public:
  /// What ops take: its own tensor, or in a WeightsInstead what stands in for it.
  const Tensor& tensor() const;
  operator const Tensor&() const { return tensor(); }  // NOLINT: implicit on purpose
  /// Its own tensor: what module walks, optimizers and files see.
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
  /// Converts the elements; handles taken before keep the old ones, and optimizers refuse them.
  void convert(DType dtype);

 protected:
  OwnedTensor() = default;
  /// Takes the elements over; `value` must not be used for anything else.
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
  bool moved_ = false;  // tensor_ went elsewhere, and nothing was assigned since
  tern::detail::Ref<tern::detail::PathLabel> moved_name_;
  Shape moved_shape_;
};

/// A weight that is trained: a leaf that requires a gradient.
class Parameter : public OwnedTensor {
 public:
  Parameter() = default;
  explicit Parameter(const Tensor& value) : OwnedTensor(value, true) {}
  /// Writes the elements of `value` (same shape) into this parameter.
  Parameter& operator=(const Tensor& value) {
    assign(value);
    return *this;
  }
};

/// State that belongs to a model but is not trained: running statistics, fixed tables.
class Buffer : public OwnedTensor {
 public:
  Buffer() = default;
  explicit Buffer(const Tensor& value) : OwnedTensor(value, false) {}
  Buffer& operator=(const Tensor& value) {
    assign(value);
    return *this;
  }
};

}  // namespace tern::nn
