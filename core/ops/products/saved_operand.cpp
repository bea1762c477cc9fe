// When the last other owner of an operand releases it, its elements are rounded to bf16 here. Uses
// other than products convert them back to f32.
#include "tern/core/ops/products/saved_operand.h"

#include <thread>

#include "tern/core/base/precision.h"
#include "tern/core/base/reserved.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/tape/autograd.h"

namespace tern {

using detail::Heir;
using detail::Ref;
using detail::Storage;
using detail::TensorImpl;

namespace {

kernels::Bf16* words(const Ref<Storage>& s) { return static_cast<kernels::Bf16*>(s->data()); }
float* floats(const Ref<Storage>& s) { return static_cast<float*>(s->data()); }

/// Attributes memory allocated here to the module that needs it, not to the module that released
/// the operand.
class RoundingScope : public OpScope {
 public:
  explicit RoundingScope(const std::string& module)
      : OpScope("rounding for backward"), module_(module) {
    open();
  }

 private:
  std::string where() const override { return module_; }
  const std::string& module_;
};

std::string module_at_work() {
  const OpScope* op = observed() ? current_op() : nullptr;
  return op ? op->module() : "";
}

}  // namespace

Tensor Operand::widened() const {
  if (!rounded()) return tensor_.detach();
  // Converts all elements of the storage. The layout selects those of this operand.
  Fresh all({static_cast<int64_t>(bf16_->size() / sizeof(kernels::Bf16))}, DType::f32);
  kernels::widen(words(bf16_), all.data<float>(), all.numel());
  return not_differentiable(Fresh::view(not_differentiable(all), layout_));
}

namespace detail {

void RoundedElements::inherit(Storage* storage) noexcept {
  const std::lock_guard lock(mutex_);
  storage_ = nullptr;
  left_.version = storage->version();
  left_.lent_at = storage->lent_at();
  const bool awaited = count.load(std::memory_order_acquire) > 1;
  if (awaited && !round(*storage))
    left_.f32 = Ref<Storage>(storage);
  else
    delete storage;
}

bool RoundedElements::round(const Storage& f32) noexcept try {
  const RoundingScope scope(module_);
  // Does not round real elements in a ShapeOnlyScope, where the result would read as 0, nor
  // reserved address space outside of one.
  if (is_reserved(f32.data()) != (reserving != nullptr)) return false;
  const auto n = static_cast<int64_t>(f32.size() / sizeof(float));
  Ref<Storage> bf16(new Storage(static_cast<size_t>(n) * sizeof(kernels::Bf16)));
  kernels::round_to_bf16(static_cast<const float*>(f32.data()), words(bf16), n);
  left_.bf16 = std::move(bf16);
  return true;
} catch (...) {  // probably out of memory
  return false;
}

RoundedElements::Found RoundedElements::find() {
  for (;; std::this_thread::yield()) {  // waits while another thread is about to call inherit()
    const std::lock_guard lock(mutex_);
    if (!storage_) return left_;
    if (Ref<Storage> f32 = Ref<Storage>::if_alive(storage_)) {
      const uint64_t version = f32->version(), lent_at = f32->lent_at();
      return {std::move(f32), {}, version, lent_at};
    }
  }
}

RoundedElements::Found RoundedElements::find_f32() {
  Found found = find();
  if (!found.bf16) return found;
  const std::lock_guard lock(mutex_);
  if (left_.bf16) {
    const auto n = static_cast<int64_t>(left_.bf16->size() / sizeof(kernels::Bf16));
    Ref<Storage> f32(new Storage(static_cast<size_t>(n) * sizeof(float)));
    kernels::widen(words(left_.bf16), floats(f32), n);
    if (is_reserved(left_.bf16->data()) != (reserving != nullptr))
      return {std::move(f32),
              {},
              left_.version,
              left_.lent_at};  // not kept: valid only in this ShapeOnlyScope
    left_ = {std::move(f32), {}, left_.version, left_.lent_at};
  }
  return left_;
}

}  // namespace detail

bool SavedOperand::round(const TensorImpl& x) {
  const bool leaf = x.node() && x.node()->is_leaf();  // its model keeps it in f32 anyway
  if (x.dtype != DType::f32 || leaf || x.storage->foreign() ||
      matmul_precision() != MatmulPrecision::bf16 || (x.node() && x.storage->recomputation()))
    return false;
  using detail::RoundedElements;
  Ref<Heir> heir = x.storage->heir();
  if (!heir)
    heir =
        x.storage->propose_heir(Ref<Heir>(new RoundedElements(x.storage.get(), module_at_work())));
  auto* elements = static_cast<RoundedElements*>(heir.get());  // every Heir is a RoundedElements
  rounding_ = {x.layout, x.node(), Ref<RoundedElements>(elements), x.storage->version()};
  return true;
}

SavedOperand::SavedOperand(const Tensor& input) {
  if (!input.defined() || !round(*input.ref())) saved_ = save(input);
}

SavedOperand::SavedOperand(const Fresh& output) {
  if (!round(*output.ref())) saved_ = save(output);
}

void SavedOperand::check_version(const detail::RoundedElements::Found& now) const {
  const bool leaf = rounding_->node && rounding_->node->is_leaf();
  detail::check_saved_version({rounding_->layout.shape, leaf}, rounding_->version, now.version,
                              now.lent_at);
}

Tensor SavedOperand::tensor(Ref<Storage> f32) const {
  Tensor t(Ref<TensorImpl>(new TensorImpl(rounding_->layout, DType::f32, std::move(f32))));
  t.ref()->set_node(rounding_->node);
  return t;
}

Operand SavedOperand::operand() const {
  if (!rounding_ || grad_enabled()) return get();
  detail::RoundedElements::Found found = rounding_->elements->find();
  check_version(found);
  if (found.bf16) return {rounding_->layout, std::move(found.bf16)};
  return tensor(std::move(found.f32));
}

Tensor SavedOperand::get() const {
  if (!rounding_) return saved_.get();
  detail::RoundedElements::Found found = rounding_->elements->find_f32();
  check_version(found);
  return tensor(std::move(found.f32));
}

}  // namespace tern
