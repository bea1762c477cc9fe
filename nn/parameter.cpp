// Copying, moving, assigning and converting parameters and buffers. Keeps their names, and marks
// old elements as retired so that optimizers notice.
#include "tern/nn/parameter.h"

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/core/tape/record.h"
#include "tern/core/tape/substitution.h"

namespace tern::nn {
namespace {

tern::detail::LeafNode* leaf_of(const Tensor& t) {
  return static_cast<tern::detail::LeafNode*>(t.ref()->node_or_frozen().get());
}

Tensor leaf(const Tensor& elements, bool requires_grad) {
  Tensor t = elements.detach();
  if (!requires_grad) return t;
  t.set_requires_grad();
  leaf_of(t)->known = false;  // until a walk finds it
  return t;
}

// A leaf if `like` is one; frozen if `like` is frozen.
Tensor leaf_like(const Tensor& like, const Tensor& elements) {
  Tensor t = leaf(elements, leaf_of(like) != nullptr);
  if (!like.requires_grad()) t.set_requires_grad(false);
  return t;
}

// While another tensor replaces this one, no op would use its new elements.
void check_not_replaced(const char* what, const Tensor& t) {
  const tern::detail::Substitution* s = tern::detail::substituting;
  check(!s || !t.defined() || !s->look_up(t.ref().get()),
        "parameter '{}': {} while another tensor replaces it; do that before the "
        "WeightsInstead begins, or after it has ended",
        parameter_name(t), what);
}

void check_no_history(const Tensor& value) {
  check(!grad_enabled() || !value.requires_grad(),
        "parameter: the tensor of shape {} requires a gradient, and a parameter would silently "
        "drop its history; give its detach(), or use a NoGradGuard",
        value.shape());
}

bool is_known(const Tensor& t) { return leaf_of(t) && leaf_of(t)->known; }

// Marks the old elements as retired, so that optimizers and averages that hold them can tell. A
// name belongs to a place in a module: an element that moves to another place (std::swap, erase)
// loses its own name.
void replace(Tensor& t, Tensor by) {
  check_not_replaced("it cannot get new elements", t);
  const std::string name = parameter_name(t);
  if (t.defined()) t.ref()->storage->retire();
  t = std::move(by);
  if (!t.defined()) return;
  set_parameter_name(t, "");
  if (!name.empty()) set_parameter_name(t, name);
}

}  // namespace

const Tensor& OwnedTensor::tensor() const { return tern::detail::standing_in(own()); }

OwnedTensor::OwnedTensor(const Tensor& value, bool requires_grad) {
  check_no_history(value);
  tensor_ = leaf(value.contiguous(), requires_grad);
}

OwnedTensor::OwnedTensor(const OwnedTensor& other) {
  const Tensor& from = other.own();
  check_not_replaced("it cannot be copied", from);
  if (!from.defined()) return;
  tensor_ = leaf_like(from, from.detach().clone());
  if (tern::detail::LeafNode* node = leaf_of(tensor_)) {
    const tern::detail::Ref<tern::detail::PathLabel> name =
        tern::detail::label_of(from.ref().get());
    node->copy_of = name && name->of_parameter ? name : leaf_of(from)->copy_of;
  }
}

OwnedTensor::OwnedTensor(OwnedTensor&& other) noexcept
    : moved_(other.moved_), moved_name_(other.moved_name_), moved_shape_(other.moved_shape_) {
  tensor_ = other.release();
}

Tensor OwnedTensor::release() noexcept {
  if (!tensor_.defined()) return {};
  moved_ = true;
  moved_name_ = tensor_.ref()->label;
  moved_shape_ = tensor_.shape();
  return std::move(tensor_);
}

void OwnedTensor::fail_moved() const {
  fail(fmt::format(
      "parameter: {} of shape {} was moved away, by std::move of it or of its module; use the "
      "object it was moved to, or assign a new one",
      moved_name_ && moved_name_->of_parameter ? fmt::format("'{}'", moved_name_->text) : "one",
      moved_shape_));
}

OwnedTensor& OwnedTensor::operator=(const OwnedTensor& other) {
  if (this == &other) return *this;
  bool same = defined() && other.defined() && shape() == other.shape() && dtype() == other.dtype();
  if (same)
    write(other.tensor_);
  else
    *this = OwnedTensor(other);
  return *this;
}

OwnedTensor& OwnedTensor::operator=(OwnedTensor&& other) {
  bool same = defined() && other.defined() && shape() == other.shape() && dtype() == other.dtype();
  if (same) {
    write(other.tensor_);
  } else if (this != &other) {
    moved_ = other.moved_;
    moved_name_ = other.moved_name_;
    moved_shape_ = other.moved_shape_;
    replace(tensor_, other.release());
  }
  return *this;
}

void OwnedTensor::assign(const Tensor& value) {
  check_no_history(value);
  write(value);
}

void OwnedTensor::write(const Tensor& value) {
  check(defined() && value.shape() == shape(),
        "parameter: a tensor of shape {} cannot be assigned to one of shape {}", value.shape(),
        defined() ? to_string(shape()) : "undefined");
  NoGradGuard no_grad;
  copy_(tensor_, value.detach());
}

void OwnedTensor::convert(DType dtype) {
  if (!defined() || tensor_.dtype() == dtype) return;
  const bool known = is_known(tensor_);
  replace(tensor_, leaf_like(tensor_, tensor_.detach().to(dtype)));
  if (known) leaf_of(tensor_)->known = true;
}

}  // namespace tern::nn
