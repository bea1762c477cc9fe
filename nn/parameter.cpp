#include "tern/nn/parameter.h"

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/core/tape/record.h"
#include "tern/core/tape/substitution.h"

namespace tern::nn {
namespace {

Tensor leaf(const Tensor& elements, bool requires_grad) {
  Tensor t = elements.detach();
  if (!requires_grad) return t;
  t.set_requires_grad();
  static_cast<LeafNode*>(t.node().get())->known = false;  // until a walk finds it
  return t;
}

bool is_known(const Tensor& t) {
  return t.requires_grad() && static_cast<LeafNode*>(t.node().get())->known;
}

// Where another tensor stands in for this one, new elements would be used by nobody.
void check_not_replaced(const char* what, const Tensor& t) {
  const tern::detail::Substitution* s = tern::detail::substituting;
  check(!s || !t.defined() || !s->look_up(t.ref().get()),
        "parameter '{}': {} while another tensor stands in for it; do that before the "
        "WeightsInstead begins, or after it has ended",
        parameter_name(t), what);
}

// Optimizers and averages that hold the old elements can tell that these are the model's no more.
// A name belongs to a place in a module: what comes to another place (std::swap, erase) loses its
// own.
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

const Tensor& OwnedTensor::tensor() const { return tern::detail::standing_in(tensor_); }

OwnedTensor::OwnedTensor(const Tensor& value, bool requires_grad)
    : tensor_(leaf(value.contiguous(), requires_grad)) {}

OwnedTensor::OwnedTensor(const OwnedTensor& other) {
  check_not_replaced("it cannot be copied", other.tensor_);
  if (other.defined())
    tensor_ = leaf(other.tensor_.detach().clone(), other.tensor_.requires_grad());
}

OwnedTensor& OwnedTensor::operator=(const OwnedTensor& other) {
  if (this == &other) return *this;
  bool same = defined() && other.defined() && shape() == other.shape() && dtype() == other.dtype();
  if (same)
    assign(other.tensor_);
  else
    replace(tensor_, OwnedTensor(other).tensor_);
  return *this;
}

OwnedTensor& OwnedTensor::operator=(OwnedTensor&& other) {
  bool same = defined() && other.defined() && shape() == other.shape() && dtype() == other.dtype();
  if (same)
    assign(other.tensor_);
  else
    replace(tensor_, std::move(other.tensor_));
  return *this;
}

void OwnedTensor::assign(const Tensor& value) {
  check(defined() && value.shape() == shape(),
        "parameter: a tensor of shape {} cannot be assigned to one of shape {}", value.shape(),
        defined() ? to_string(shape()) : "undefined");
  NoGradGuard no_grad;
  copy_(tensor_, value.detach());
}

void OwnedTensor::convert(DType dtype) {
  if (!defined() || tensor_.dtype() == dtype) return;
  const bool known = is_known(tensor_);
  replace(tensor_, leaf(tensor_.detach().to(dtype), tensor_.requires_grad()));
  if (known) static_cast<LeafNode*>(tensor_.node().get())->known = true;
}

}  // namespace tern::nn
