// What tensors know of the tape: whether they are leaves, their gradients, and writing in place.
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {

TensorImpl::TensorImpl(Layout l, DType t, Ref<Storage> s)
    : layout(l), dtype(t), storage(std::move(s)) {}

TensorImpl::~TensorImpl() {
  if (node && node->is_leaf()) {
    auto* leaf = static_cast<LeafNode*>(node.get());
    if (leaf->owner == this) leaf->owner = nullptr;
  }
}

const Tensor& Tensor::set_requires_grad(bool on) const {
  check(is_leaf(), "set_requires_grad: only leaves can be changed; use detach()");
  if (!on) {
    impl().node = {};
  } else if (!impl().node) {
    check(is_float(dtype()), "set_requires_grad: only floating tensors have gradients, this is {}",
          dtype());
    impl().node = Ref<Node>(new LeafNode(&impl()));
  }
  return *this;
}

bool Tensor::is_leaf() const { return !impl().node || impl().node->is_leaf(); }

Tensor Tensor::grad() const {
  if (!requires_grad() || !impl_->node->is_leaf()) return {};
  return static_cast<LeafNode*>(impl_->node.get())->grad;
}

void Tensor::set_grad(Tensor grad) const {
  check(requires_grad() && is_leaf(), "set_grad: only leaves that require a gradient have one");
  if (grad.defined())
    check(grad.shape() == shape() && grad.dtype() == dtype(),
          "set_grad: the tensor is {} {}, the gradient {} {}", dtype(), shape(), grad.dtype(),
          grad.shape());
  static_cast<LeafNode*>(impl_->node.get())->grad = std::move(grad);
}

void Tensor::backward() const { tern::backward(*this); }

void Tensor::begin_write(const char* op) const {
  check(!grad_enabled(),
        "{}: writing in place would break recorded gradients; put a NoGradGuard around it", op);
  impl().storage->bump_version();
}

Tensor Tensor::detach() const {
  return Tensor(Ref<TensorImpl>(new TensorImpl(layout(), dtype(), impl().storage)));
}

}  // namespace tern
