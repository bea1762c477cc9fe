// Recording of ops: new memory for results, tensors saved for the backward pass with their
// versions, and access of VJPs to gathered gradients.
#include "tern/core/tape/record.h"

#include <utility>

#include "tern/core/base/out_of_memory.h"
#include "tern/core/tape/arithmetic.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/segment.h"

namespace tern {

using detail::LeafNode;
using detail::Node;
using detail::Ref;
using detail::Storage;
using detail::TensorImpl;

bool Wants::operator[](int input) const {
  const Ref<Node>& node = node_.inputs[static_cast<size_t>(input)];
  if (!node || !to_leaves_) return node && node->mark == run_;
  return !node->is_leaf() || !static_cast<const LeafNode&>(*node).frozen();
}

Tensor Wants::accumulator(int input) const {
  const Ref<Node>& node = node_.inputs[static_cast<size_t>(input)];
  if (!node || grad_enabled()) return {};
  if (!to_leaves_ || !node->is_leaf())
    return detail::may_add_in_place(node->pending) ? node->pending : Tensor();
  // Does not wait, so that two passes that claim each other's leaves cannot deadlock.
  auto& leaf = static_cast<LeafNode&>(*node);
  std::unique_lock lock(leaf.gathering, std::try_to_lock);
  if (!lock || !detail::may_add_in_place(leaf.grad)) return {};
  held_.push_back(&leaf);
  lock.release();  // stays locked until release()
  return leaf.grad;
}

void Wants::release() const {
  for (LeafNode* leaf : held_) leaf->gathering.unlock();
  held_.clear();
}

std::unique_lock<std::recursive_mutex> Wants::lock(int input) const {
  Node& node = *node_.inputs[static_cast<size_t>(input)];
  if (!to_leaves_ || !node.is_leaf()) return {};
  return std::unique_lock(static_cast<LeafNode&>(node).gathering);
}

Tensor& Wants::gathered(int input) const {
  Node& node = *node_.inputs[static_cast<size_t>(input)];
  return to_leaves_ && node.is_leaf() ? static_cast<LeafNode&>(node).grad : node.pending;
}

Tensor Wants::take(int input) const {
  const auto held = lock(input);
  return std::exchange(gathered(input), Tensor());
}

void Wants::put(int input, Tensor sum) const {
  const auto held = lock(input);
  Tensor& place = gathered(input);  // defined if another pass has added to it meanwhile
  place = place.defined() ? add(sum, place) : std::move(sum);
}

namespace {

Ref<Storage> new_storage(int64_t bytes, const Shape& shape, DType dtype) {
  try {
    return Ref<Storage>(new Storage(static_cast<size_t>(bytes)));
  } catch (const OutOfMemory& e) {
    throw OutOfMemory(fmt::format("{}, for a tensor {} {}", e.what(), dtype, shape));
  }
}

}  // namespace

Fresh::Fresh(const Shape& shape, DType dtype) {
  int64_t bytes = 0;
  check(!__builtin_mul_overflow(tern::numel(shape), item_size(dtype), &bytes),
        "tensor of shape {}: too many bytes", shape);
  impl_ = Ref<TensorImpl>(
      new TensorImpl(Layout::contiguous(shape), dtype, new_storage(bytes, shape, dtype)));
}

Fresh Fresh::view(const Tensor& x, const Layout& layout) {
  layout.numel();  // an error if too large: windows and expanded axes multiply
  return Fresh(Ref<TensorImpl>(new TensorImpl(layout, x.dtype(), x.ref()->storage)));
}

Fresh Fresh::adopt(const Tensor& value) { return view(value, value.layout()); }

void detail::check_saved_version(const SavedShape& t, uint64_t saved, uint64_t now,
                                 uint64_t lent_at) {
  if (now == saved) return;
  const char* op = running_node() ? running_node()->name : "an op";
  check(lent_at <= saved,
        "backward: {} saved a weight of shape {}, and since then an EmaScope (or Ema::swap) has "
        "put averages in its place or taken them out; run forward and backward both outside the "
        "scope, or both inside it. nn::WeightsInstead(model, ema.averages()) runs the averages "
        "beside the model, as a teacher",
        op, t.shape);
  fail(fmt::format(
      "backward: {} saved a tensor of shape {} at version {}, but it is now at version {}: it was "
      "written in place after it was saved; {}write to a clone() instead",
      op, t.shape, saved, now,
      t.leaf ? "if an optimizer's step did it, run backward for all losses before the step; else "
             : ""));
}

Saved::Saved(const Saved&) = default;
Saved::Saved(Saved&&) noexcept = default;
Saved& Saved::operator=(const Saved&) = default;
Saved& Saved::operator=(Saved&&) noexcept = default;
Saved::~Saved() = default;

Saved::Saved(Tensor t, bool is_output)
    : tensor_(std::move(t)),
      version_(tensor_.defined() ? tensor_.ref()->storage->version() : 0),
      is_output_(is_output) {
  // Keeps a detached tensor itself, since it may outlive the inputs of its recomputation.
  if (!tensor_.defined() || is_output || !tensor_.node() ||
      !tensor_.ref()->storage->recomputation())
    return;
  remade_ = {tensor_.layout(), tensor_.dtype(), tensor_.node(),
             tensor_.ref()->storage->recomputation()};
  tensor_ = {};
}

void Saved::check_unchanged() const {
  if (tensor_.defined()) {
    const detail::Storage& storage = *tensor_.ref()->storage;
    const bool leaf = tensor_.node() && tensor_.is_leaf();
    detail::check_saved_version({tensor_.shape(), leaf}, version_, storage.version(),
                                storage.lent_at());
  }
}

Tensor Saved::get() const {
  if (remade_) {
    Tensor t(Ref<TensorImpl>(
        new TensorImpl(remade_->layout, remade_->dtype, remade_->recomputation->elements())));
    t.ref()->set_node(remade_->node);
    return t;
  }
  check_unchanged();
  if (!tensor_.defined()) return {};
  if (!is_output_ || !grad_enabled() || !detail::running_node()) return tensor_;
  Tensor t = tensor_.detach();
  t.ref()->set_node(Ref<Node>(detail::running_node()));
  return t;
}

Tensor Saved::consume() {
  if (!tensor_.defined() || tensor_.ref().use_count() > 1 || !held_once(tensor_.ref()->storage) ||
      !tensor_.is_contiguous())
    return {};
  check_unchanged();
  Tensor t = tensor_.detach();
  tensor_ = {};
  return t;
}

Saved Saved::detached() const {
  Saved alone = *this;
  if (remade_)
    alone.remade_->node = {};
  else if (tensor_.defined())
    alone.tensor_ = tensor_.detach();
  return alone;
}

std::vector<Saved> detail::recomputation_inputs(std::span<const Saved> from) {
  constexpr int64_t kMost = 100;  // each level takes stack memory
  std::vector<Saved> kept;
  for (const Saved& s : from) {
    if (s.remakes() >= kMost) return {};
    kept.push_back(s.detached());
  }
  return kept;
}

Saved save(const Fresh& output) {
  const TensorImpl& impl = *output.ref();
  return Saved(Tensor(Ref<TensorImpl>(new TensorImpl(impl.layout, impl.dtype, impl.storage))),
               true);
}

void detail::connect(Node& node, const Tensor& input) {
  node.inputs.push_back(input.requires_grad() ? input.node() : Ref<Node>());
}

Fresh Consumed::reuse() const {
  if (!grad_enabled() && detail::may_add_in_place(dy_)) return Fresh::adopt(dy_);
  return Fresh(dy_.shape(), dy_.dtype());
}

bool recording(std::initializer_list<std::reference_wrapper<const Tensor>> inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor& t : inputs)
    if (t.requires_grad()) return true;
  return false;
}

bool recording(std::span<const Tensor> inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor& t : inputs)
    if (t.requires_grad()) return true;
  return false;
}

bool Op::recording() const {
  if (!grad_enabled()) return false;
  for (int i = 0; i < num_inputs(); ++i)
    if (input(i).requires_grad()) return true;
  return false;
}

void Op::connect(Node& node) const {
  node.inputs.reserve(static_cast<size_t>(num_inputs()));
  for (int i = 0; i < num_inputs(); ++i) detail::connect(node, input(i));
}

Tensor Op::finish(Fresh out, Ref<Node> node) {
  if (node) out.ref()->set_node(std::move(node));
  Tensor result(out.ref());
  announce(result, results_++);
  return result;
}

void detail::fail_undefined(const char* op, size_t operand) {
  fail(
      fmt::format("{}: operand {} is undefined (a default-constructed Tensor); assign it a value "
                  "first",
                  op, operand));
}

void check_all_defined(const char* op, std::span<const Tensor> operands) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (!operands[i].defined()) detail::fail_undefined(op, i + 1);
}

Tensor not_differentiable(Fresh out) { return Tensor(out.ref()); }

namespace {

class EndNode final : public Node {
 public:
  explicit EndNode(const Tensor& t) : Node("end", t.shape(), t.dtype()) {}
  Gradients vjp(Consumed&&, const Wants&) override { return {}; }
  void release() noexcept override {}
};

}  // namespace

Tensor detail::as_end(const Tensor& t) {
  Tensor end = t.detach();
  end.ref()->set_node(Ref<Node>(new EndNode(t)));
  return end;
}

}  // namespace tern
