// The members of Tensor that belong to the tape: leaves, gradients, and checks of in-place writes.
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {

using detail::LeafNode;
using detail::Node;
using detail::Ref;
using detail::Storage;
using detail::TensorImpl;

TensorImpl::TensorImpl(Layout l, DType t, Ref<Storage> s)
    : layout(l), dtype(t), storage(std::move(s)) {}

TensorImpl::~TensorImpl() {
  if (node_) storage->track(-1);
  for (Node* node : {node_.get(), frozen_.get()})
    if (node && node->is_leaf() && static_cast<LeafNode*>(node)->owner == this)
      static_cast<LeafNode*>(node)->owner = nullptr;
}

void TensorImpl::set_node(Ref<Node> node) {
  storage->track((node ? 1 : 0) - (node_ ? 1 : 0));
  node_ = std::move(node);
}

void TensorImpl::freeze() {
  if (!node_) return;
  auto* leaf = static_cast<LeafNode*>(node_.get());
  leaf->grad = {};
  leaf->pass = {};
  leaf->stepped_by = nullptr;
  leaf->step = {};
  frozen_ = node_;
  set_node({});
}

void TensorImpl::unfreeze() {
  set_node(frozen_ ? std::move(frozen_) : Ref<Node>(new LeafNode(this)));
  frozen_ = {};
}

const Tensor& Tensor::set_requires_grad(bool on) const {
  if (!is_leaf()) {
    check(on, "set_requires_grad: a recorded op made this tensor; its detach() needs no gradient");
    return *this;  // it requires a gradient already
  }
  if (!on) {
    impl().freeze();
  } else if (!impl().node()) {
    check(is_float(dtype()), "set_requires_grad: only floating tensors have gradients, this is {}",
          dtype());
    impl().unfreeze();
  }
  return *this;
}

bool Tensor::is_leaf() const { return !impl().node() || impl().node()->is_leaf(); }

Tensor Tensor::grad() const {
  if (!requires_grad() || !impl_->node()->is_leaf()) return {};
  return static_cast<LeafNode*>(impl_->node().get())->grad;
}

void Tensor::set_grad(Tensor grad) const {
  check(requires_grad() && is_leaf(), "set_grad: only leaves that require a gradient have one");
  if (grad.defined()) {
    check(grad.shape() == shape() && grad.dtype() == dtype(),
          "set_grad: the tensor is {} {}, the gradient {} {}", dtype(), shape(), grad.dtype(),
          grad.shape());
    check(!grad.requires_grad(),
          "set_grad: the gradient requires a gradient itself, and a leaf that holds its own graph "
          "is never freed; give its detach()");
  }
  auto* leaf = static_cast<LeafNode*>(impl_->node().get());
  leaf->grad = std::move(grad);
  leaf->step = {};
}

void Tensor::zero_grad() const {
  check(is_leaf(), "zero_grad: a result of shape {} has no gradient to clear, only leaves do",
        shape());
  if (requires_grad()) set_grad({});
}

void Tensor::backward() const { tern::backward(*this); }

void Tensor::check_writable(const char* op) const {
  if (!impl().storage->read_only()) return;
  const std::string name = parameter_name(*this);
  fail(
      fmt::format("{}: the {} of shape {} lies in read-only memory (Tensor::wrap of a pointer to "
                  "const); write to a clone(), or wrap memory that may be written",
                  op, name.empty() ? "tensor" : fmt::format("parameter '{}'", name), shape()));
}

void Tensor::begin_write(const char* op) const {
  check_writable(op);
  check(!impl().storage->lent(),
        "{}: the tensor of shape {} holds averages at the moment (EmaScope, Ema::swap): a write "
        "would change them and not the model. Write after the scope has ended; a forward pass in "
        "evaluation mode (nn::EvalScope) does not write running statistics",
        op, shape());
  if (grad_enabled()) {
    check(!requires_grad(),
          "{}: the tensor of shape {} requires a gradient, and an in-place write would make that "
          "gradient wrong; compute a new tensor, or put a NoGradGuard around the write",
          op, shape());
    check(impl().storage->tracked() == 0,
          "{}: the tensor of shape {} shares its elements with one that requires a gradient; write "
          "to a clone(), or put a NoGradGuard around the write",
          op, shape());
  }
  impl().storage->bump_version();
}

Tensor Tensor::detach() const {
  return Tensor(Ref<TensorImpl>(new TensorImpl(layout(), dtype(), impl().storage)));
}

}  // namespace tern
