// What the tape is made of. Ops make nodes by Op::record (record.h); the engine runs them.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tern/core/base/precision.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

class Consumed;
class Wants;

/// The gradients a VJP returns, one per input; undefined where there is none.
using Gradients = std::vector<Tensor, detail::pool::Allocator<Tensor>>;

namespace detail {

/// A recorded op: what made a tensor, and how to send a gradient back to the inputs.
class Node : public Counted, public pool::Pooled {
 public:
  Node(const char* name, const Shape& shape, DType dtype);
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Gradients of the inputs from the gradient of the output.
  virtual Gradients vjp(Consumed&& dy, const Wants& wants) = 0;
  /// Frees what was saved; vjp must not be called afterwards.
  virtual void release() noexcept = 0;
  virtual bool released() const { return false; }
  virtual bool is_leaf() const { return false; }
  /// The gradient so far; `to_leaves`: that of a leaf is its tensor's grad().
  const Tensor& gathered(bool to_leaves) const;

  const char* name;
  uint64_t sequence;                                          ///< newer nodes have larger numbers
  Shape shape;                                                ///< of the output
  DType dtype;                                                ///< of the output
  std::vector<Ref<Node>, pool::Allocator<Ref<Node>>> inputs;  ///< null: wants no gradient
  const MatmulPrecision precision;  ///< that the op was computed with; its VJP is, too
  Ref<PathLabel> origin;            ///< the module of the op, if it was watched
  Tensor pending;                   ///< the engine's: gradient so far
  uint64_t mark = 0;                ///< the engine's: last run that needs it
  int64_t awaited = 0;              ///< the engine's: contributions still to come
  Node* next_dead = nullptr;        ///< links nodes that wait to be freed
};

/// What one backward pass tells the leaves that it reaches: the parameters that no walk over a
/// module had found by then.
struct BackwardPass : Counted, pool::Pooled {
  std::vector<Ref<Node>> unknown;
};
inline void dispose(BackwardPass* pass) { delete pass; }

/// Where the gradient of a leaf is gathered. Passes of several threads may come to one leaf: what
/// they change of it they change under `gathering`.
class LeafNode final : public Node {
 public:
  explicit LeafNode(TensorImpl* owner);
  Gradients vjp(Consumed&&, const Wants&) override { return {}; }
  void release() noexcept override {}
  bool is_leaf() const override { return true; }
  /// Whether the tensor does not ask for a gradient since the graph was made.
  bool frozen() const { return owner && owner->node().get() != this; }
  /// An Error if a pass of another thread hands this leaf over (on_ready). REQUIRES: `gathering`.
  void check_may_gather() const;
  /// This thread's pass begins or ends a use that excludes other threads: to hand the leaf over, or
  /// to ask for its gradient by grad(). An Error if another thread's is at it, and false if this
  /// thread was before.
  bool claim(std::thread::id LeafNode::*use, bool on);
  TensorImpl* owner;  ///< null once the tensor is gone
  Tensor grad;
  std::recursive_mutex gathering;
  std::thread::id handing_over, asked_for;  ///< the threads of claim()
  bool known = true;                        ///< false: a parameter that no walk has found so far
  Ref<PathLabel> copy_of;            ///< the name of the parameter that an unknown one is a copy of
  Ref<BackwardPass> pass;            ///< the last one that reached it, if it was known
  uint64_t run = 0;                  ///< of that pass, or of one that reached it unknown
  const char* stepped_by = nullptr;  ///< the optimizer that took the gradient inside backward
};

/// The leaves that `output` depends on and that are not frozen: those of leaves(), and parameters
/// whose tensors are gone (copies that lived for a forward pass alone).
std::vector<Ref<LeafNode>> leaf_nodes(const Tensor& output);

/// "of shape (4,), a copy of 'up.weight'".
std::string describe(const LeafNode& leaf);

/// While it lives, this thread runs the VJP of `node`, with its precision.
class RunningScope {
 public:
  explicit RunningScope(Node* node);
  ~RunningScope();
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  Node* before_;
  MatmulPrecisionScope precision_;
};

/// The node whose VJP this thread is running; null outside a backward pass.
Node* running_node();

/// Whether a gradient may be added to where it lies: it is contiguous, nobody else holds it or
/// its storage, and it has no history.
bool may_add_in_place(const Tensor& sum);

}  // namespace detail

}  // namespace tern
