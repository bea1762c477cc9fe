// Creation and deletion of nodes (a long chain is freed without recursion), claims of leaves by
// threads, and the node whose VJP is running.
#include "tern/core/tape/node.h"

#include <atomic>
#include <utility>

#include "tern/core/tape/segment.h"

namespace tern {

using detail::LeafNode;
using detail::Node;
using detail::TensorImpl;

namespace {

std::atomic<uint64_t> next_sequence{1};

// Nodes without references. Deleting a node drops references to others. They wait here instead of
// being deleted inside each other, so that freeing a long chain does not recurse.
struct Trash {
  Node* head = nullptr;
  bool draining = false;
};
thread_local Trash trash;

thread_local Node* running_now = nullptr;

}  // namespace

void detail::dispose(Node* node) {
  node->next_dead = trash.head;
  trash.head = node;
  if (trash.draining) return;
  trash.draining = true;
  while (trash.head) {
    Node* dead = trash.head;
    trash.head = dead->next_dead;
    delete dead;
  }
  trash.draining = false;
}

Tensor Node::gathered(bool to_leaves) {
  if (!to_leaves || !is_leaf()) return pending;
  auto* leaf = static_cast<LeafNode*>(this);
  std::lock_guard lock(leaf->gathering);
  return leaf->grad;
}

Node::Node(const char* n, const Shape& s, DType t)
    : name(n),
      sequence(next_sequence.fetch_add(1, std::memory_order_relaxed)),
      shape(s),
      dtype(t),
      precision(matmul_precision()),
      backend(matmul_backend()) {}
Node::~Node() = default;

LeafNode::LeafNode(TensorImpl* o) : Node("leaf", o->layout.shape, o->dtype), owner(o) {
  sequence = 0;  // runs after every op that used it
}

void LeafNode::check_may_gather() const {
  check(handing_over == std::thread::id() || handing_over == std::this_thread::get_id(),
        "backward: a leaf of shape {} gets gradients from two threads, but one of them uses "
        "on_ready, which needs the whole gradient; leave out on_ready and step after both passes, "
        "or run one pass after the other",
        shape);
}

bool LeafNode::claim(std::thread::id LeafNode::*use, bool on) {
  std::lock_guard lock(gathering);
  const std::thread::id here = std::this_thread::get_id(), no_thread;
  if (use == &LeafNode::handing_over) check_may_gather();
  check(use == &LeafNode::handing_over || asked_for == no_thread || asked_for == here,
        "grad: two threads ask for the gradient of one leaf of shape {} at the same time; run one "
        "after the other, give each thread a copy, or use backward",
        shape);
  return std::exchange(this->*use, on ? here : no_thread) == no_thread;
}

namespace detail {

std::string describe(const LeafNode& leaf) {
  return fmt::format("of shape {}{}", leaf.shape,
                     leaf.copy_of ? fmt::format(", a copy of '{}'", leaf.copy_of->text) : "");
}

RunningScope::RunningScope(Node* node)
    : running_(running_now, node), precision_(node->precision), backend_(node->backend) {}

Node* running_node() { return running_now; }

uint64_t tape_position() { return next_sequence.load(std::memory_order_relaxed) - 1; }

bool may_add_in_place(const Tensor& sum) {
  return sum.defined() && sum.ref().use_count() == 1 && held_once(sum.ref()->storage) &&
         !sum.ref()->node() && sum.is_contiguous();
}

}  // namespace detail

}  // namespace tern
