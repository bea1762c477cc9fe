// The nodes of the tape. Op::record (record.h) makes them; the engine runs them.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tern/core/base/matmul_backend.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/restored.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

class Consumed;
class Wants;

/// The gradients that a VJP returns, one per input. A missing gradient is undefined.
using Gradients = std::vector<Tensor, detail::pool::Allocator<Tensor>>;

namespace detail {

/// A recorded op: it made a tensor and can send a gradient back to its inputs.
class Node : public Counted, public pool::Pooled {
 public:
  Node(const char* name, const Shape& shape, DType dtype);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Computes the inputs' gradients from the output's gradient.
  virtual Gradients vjp(Consumed&& dy, const Wants& wants) = 0;
  /// Frees the saved tensors. vjp must not be called afterwards.
  virtual void release() noexcept = 0;
  virtual bool released() const { return false; }
  virtual bool is_leaf() const { return false; }
  /// The gradient so far. If `to_leaves`, a leaf's is its tensor's grad(). While the handle exists,
  /// its elements stay, also if a pass of another thread adds to the gradient.
  Tensor gathered(bool to_leaves);

  const char* name;
  uint64_t sequence;                                          ///< newer nodes have larger numbers
  Shape shape;                                                ///< of the output
  DType dtype;                                                ///< of the output
  std::vector<Ref<Node>, pool::Allocator<Ref<Node>>> inputs;  ///< null: needs no gradient
  const MatmulPrecision precision;                            ///< of the op and of its VJP
  const MatmulBackend backend;                                ///< of the op and of its VJP
  Ref<PathLabel> origin;      ///< the module of the op, if an observer watched it
  Tensor pending;             ///< for the engine: gradient so far
  uint64_t mark = 0;          ///< for the engine: the last run that needs this node
  int64_t awaited = 0;        ///< for the engine: contributions still to come
  Node* next_dead = nullptr;  ///< links nodes that wait to be freed
};

/// One backward pass. Collects the parameters that it reached and that no module walk has found so
/// far.
struct BackwardPass : Counted, pool::Pooled {
  std::vector<Ref<Node>> unknown;
};
inline void dispose(BackwardPass* pass) { delete pass; }

/// The node of a leaf, which gathers its gradient. Passes of several threads may reach one leaf.
/// They change it only while they hold `gathering`.
class LeafNode final : public Node {
 public:
  explicit LeafNode(TensorImpl* owner);
  Gradients vjp(Consumed&&, const Wants&) override { return {}; }
  void release() noexcept override {}
  bool is_leaf() const override { return true; }
  /// Whether the tensor stopped requiring a gradient after the graph was made.
  bool frozen() const { return owner && owner->node().get() != this; }
  /// The optimizer that stepped the parameter, and the gradient that it used.
  struct Step {
    const void* optimizer = nullptr;
    const char* name = "";
    const Storage* gradient = nullptr;  ///< only compared, never read
    uint64_t version = 0;               ///< of the gradient's elements
    uint64_t run = 0;                   ///< the last pass that added to the gradient
    bool operator==(const Step&) const = default;
  };
  /// Error if another thread's pass hands this leaf over (on_ready). REQUIRES: `gathering` is held.
  void check_may_gather() const;
  /// Begins or ends an exclusive use by this thread: handing the leaf over, or asking for its
  /// gradient by grad(). Error if another thread has this use. Returns false if this thread already
  /// has it.
  bool claim(std::thread::id LeafNode::*use, bool on);
  TensorImpl* owner;  ///< null once the tensor is gone
  Tensor grad;
  std::recursive_mutex gathering;
  std::thread::id handing_over, asked_for;  ///< the threads that hold claim()
  bool known = true;                        ///< false: a parameter that no walk has found so far
  Ref<PathLabel> copy_of;            ///< if unknown: the name of the parameter that it copies
  Ref<BackwardPass> pass;            ///< the last pass that reached it while it was known
  uint64_t run = 0;                  ///< the run of the last pass that reached it, known or not
  const char* stepped_by = nullptr;  ///< optimizer that took the gradient inside backward
  Step step;                         ///< the last step of an optimizer with `grad`
};

/// The leaves that `output` depends on and that are not frozen. Includes those of leaves(), and
/// parameters whose tensors are gone (copies that existed only during the forward pass).
std::vector<Ref<LeafNode>> leaf_nodes(const Tensor& output);

/// "of shape (4,), a copy of 'up.weight'".
std::string describe(const LeafNode& leaf);

/// While one exists, this thread runs the VJP of `node`, with the node's precision and backend.
class RunningScope {
 public:
  explicit RunningScope(Node* node);

 private:
  Restored<Node*> running_;
  MatmulPrecisionScope precision_;
  MatmulBackendScope backend_;
};

/// The node whose VJP this thread runs; null outside a backward pass.
Node* running_node();

/// Whether a gradient may be added to in place: it is contiguous, it and its storage have no other
/// owner, and it has no history.
bool may_add_in_place(const Tensor& sum);

}  // namespace detail

}  // namespace tern
