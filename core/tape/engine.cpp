// The backward pass: a heap of nodes with pending gradients, newest first. Each node's VJP sends
// gradients to its inputs, until they reach leaves or the inputs of grad().
#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "tern/core/tape/arithmetic.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/core/tape/segment.h"

namespace tern {

using detail::BackwardPass;
using detail::LeafNode;
using detail::Node;
using detail::Ref;
using detail::TensorImpl;

namespace {

std::atomic<uint64_t> next_run{1};

thread_local bool pass_runs = false;

/// The scope of a running VJP.
class BackwardScope : public OpScope {
 public:
  BackwardScope(const Node& node, const Tensor& dy, bool to_leaves)
      : OpScope(node.name, &node, to_leaves), gradient_(&dy) {
    set_inputs(&gradient_, 1);
    open();
  }
  using OpScope::announce;

 private:
  const Tensor* gradient_;
};

bool older(const Node* a, const Node* b) { return a->sequence < b->sequence; }

// All nodes that the roots depend on, including the roots. Does not look behind nodes made at or
// before `since`.
std::vector<Node*> reachable(const std::vector<Node*>& roots, uint64_t since = 0) {
  std::vector<Node*> stack, found;
  std::unordered_set<Node*> seen;
  auto visit = [&](Node* n) {
    if (n && seen.insert(n).second) stack.push_back(n);
  };
  for (Node* r : roots) visit(r);
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    found.push_back(n);
    if (n->sequence <= since) continue;
    for (const Ref<Node>& i : n->inputs) visit(i.get());
  }
  return found;
}

std::vector<Node*> nodes_of(const std::vector<Tensor>& tensors) {
  std::vector<Node*> nodes;
  for (const Tensor& t : tensors)
    if (t.requires_grad()) nodes.push_back(t.node().get());
  return nodes;
}

/// One backward pass. Nodes with a pending gradient wait in a heap, newest first. When a node is
/// taken from the heap, all nodes made from its output have run.
class Engine {
 public:
  using OnReady = std::function<void(const Tensor&)>;

  // The pass stops at nodes made at or before `since`.
  Engine(bool to_leaves, bool create_graph, bool retain_graph, uint64_t since = 0)
      : to_leaves_(to_leaves), create_graph_(create_graph), retain_(retain_graph), since_(since) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    for (Node* n : heap_) n->pending = {};  // not empty only after an exception
    for (auto& [node, awaited] : counts_before_) node->awaited = awaited;
    for (const Ref<LeafNode>& leaf : claimed_) leaf->claim(claim_, false);
  }

  uint64_t run_id() const { return run_; }

  // Claims a leaf: until this pass ends, passes of other threads may not claim it.
  void claim(Node* node) {
    if (!node->is_leaf()) return;
    auto* leaf = static_cast<LeafNode*>(node);
    if (leaf->claim(claim_, true)) claimed_.emplace_back(leaf);
  }

  // Adds `g` to the gradient gathered for the output of `node`.
  void deliver(Node* node, Tensor g) {
    if (to_leaves_ && node->is_leaf()) {
      deliver_to_leaf(*static_cast<LeafNode*>(node), std::move(g));
      return;
    }
    if (node->pending.defined()) {
      if (!add_to(node->pending, g)) node->pending = add(node->pending, g);
      return;
    }
    node->pending = std::move(g);
    heap_.push_back(node);
    std::push_heap(heap_.begin(), heap_.end(), older);
  }

  // Prepares calls of `on_ready` for the leaves of `root`: counts for every node the gradients that
  // may still come.
  void count_for(Node* root, const OnReady& on_ready);

  // Notes that one gradient that `node` waits for has come, or will never come.
  void settle(Node* node);

  // Runs to the end. Calls `capture(node, gradient)` first with each node's full gradient.
  template <class Capture>
  void run(Capture capture) {
    const detail::Restored<bool> runs(pass_runs, true);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), older);
      Node* node = heap_.back();
      heap_.pop_back();
      Tensor dy = std::move(node->pending);
      node->pending = {};
      capture(node, dy);
      if (node->sequence > since_) step(node, std::move(dy));
    }
  }

 private:
  void step(Node* node, Tensor dy) {
    Wants wants(*node, run_, to_leaves_, !retain_ && !create_graph_);
    int n = static_cast<int>(node->inputs.size());
    bool any = false;
    for (int i = 0; i < n; ++i) any |= wants[i];
    if (!any) return;
    check(
        !node->released(),
        "backward: {} has already run backward and freed what it saved; detach() what comes from "
        "an earlier step, or ask for retain_graph in the first pass to go through the graph twice",
        node->name);
    BackwardScope op(*node, dy, to_leaves_);
    Gradients grads;
    {
      detail::RunningScope scope(node);
      grads = node->vjp(Consumed(std::move(dy)), wants);
    }
    wants.release();
    if (!retain_) node->release();
    check(static_cast<int>(grads.size()) == n, "backward: {} returned {} gradients for {} inputs",
          node->name, grads.size(), n);
    for (int i = 0; i < n; ++i)
      if (wants[i]) pass_on(op, *node, i, std::move(grads[static_cast<size_t>(i)]));
    if (on_ready_)
      for (const Ref<Node>& input : node->inputs)
        if (input) settle(input.get());
  }

  // Passes the gradient of an input on to its node. An undefined `g` means that there is no
  // gradient, or that the VJP added it in place.
  void pass_on(BackwardScope& op, const Node& node, int i, Tensor g) {
    Node* input = node.inputs[static_cast<size_t>(i)].get();
    if (!g.defined()) {
      if (to_leaves_ && input->is_leaf()) note(*static_cast<LeafNode*>(input));
      if (observed()) op.announce(input->gathered(to_leaves_), i);
      return;
    }
    g = fit(std::move(g), *input, node.name);
    op.announce(g, i);
    deliver(input, std::move(g));
  }

  // Undoes broadcasting: sums over the axes along which the input was expanded.
  static Tensor fit(Tensor g, const Node& input, const char* op) {
    check(g.dtype() == input.dtype, "backward: {} returned a {} gradient for a {} input", op,
          g.dtype(), input.dtype);
    if (g.shape() == input.shape) return g;
    check(broadcasts_to(input.shape, g.shape()),
          "backward: {} returned a gradient of shape {} for an input of shape {}", op, g.shape(),
          input.shape);
    return sum_to(g, input.shape);
  }

  // Adds `b` to `a` in place if allowed; returns whether it did. An exception leaves `a` unchanged.
  bool add_to(const Tensor& a, const Tensor& b) {
    if (create_graph_ || !detail::may_add_in_place(a)) return false;
    add_(a, b, 1);
    return true;
  }

  // Notes that this pass reached the leaf. The pass holds an unknown leaf, so that leaf must not
  // hold the pass: a cycle would never be freed.
  void note(LeafNode& leaf) {
    std::lock_guard lock(leaf.gathering);
    leaf.check_may_gather();
    if (leaf.run == run_) return;
    leaf.run = run_;
    if (!pass_) pass_ = Ref<BackwardPass>(new BackwardPass);
    if (leaf.known)
      leaf.pass = pass_;
    else
      pass_->unknown.emplace_back(&leaf);
  }

  void deliver_to_leaf(LeafNode& leaf, Tensor g) {
    std::lock_guard lock(leaf.gathering);
    note(leaf);
    if (leaf.grad.defined()) {
      if (!add_to(leaf.grad, g)) leaf.grad = add(leaf.grad, g);
    } else {
      leaf.grad = detail::may_add_in_place(g) ? std::move(g) : g.clone();
    }
  }

  std::vector<Node*> heap_;
  std::vector<std::pair<Ref<Node>, int64_t>> counts_before_;  // counts of the enclosing pass
  std::vector<Ref<LeafNode>> claimed_;                        // leaves that this pass hands over
  const OnReady* on_ready_ = nullptr;
  uint64_t run_ = next_run.fetch_add(1, std::memory_order_relaxed);
  bool to_leaves_, create_graph_, retain_;
  std::thread::id LeafNode::*claim_ = to_leaves_ ? &LeafNode::handing_over : &LeafNode::asked_for;
  uint64_t since_;
  Ref<BackwardPass> pass_;
};

void Engine::count_for(Node* root, const OnReady& on_ready) {
  on_ready_ = &on_ready;
  std::vector<Node*> nodes = reachable({root});
  for (Node* n : nodes) claim(n);
  for (Node* n : nodes) {
    if (n->awaited != 0) counts_before_.emplace_back(Ref<Node>(n), n->awaited);
    n->awaited = 0;
  }
  for (Node* n : nodes)
    for (const Ref<Node>& i : n->inputs)
      if (i) ++i->awaited;
  root->awaited = 1;  // the seed
}

void Engine::settle(Node* node) {
  std::vector<Node*> settled = {node};
  while (!settled.empty()) {
    Node* n = settled.back();
    settled.pop_back();
    if (--n->awaited > 0) continue;
    if (n->is_leaf()) {
      auto* leaf = static_cast<LeafNode*>(n);
      TensorImpl* owner = leaf->owner;
      if (owner && !leaf->frozen()) (*on_ready_)(Tensor(Ref<TensorImpl>(owner)));
    } else if (!n->pending.defined()) {
      // No gradient came: this node will never run.
      for (const Ref<Node>& i : n->inputs)
        if (i) settled.push_back(i.get());
    }
  }
}

// The gradient of the output: `given`, or 1 for a single element.
Tensor seed(const char* op, const Tensor& y, const Tensor& given) {
  check(y.defined(), "{}: the output is undefined (a default-constructed Tensor)", op);
  check(
      y.requires_grad(),
      "{}: the output does not depend on anything that requires a gradient. Was it computed under "
      "a NoGradGuard, from detach(), from frozen parameters or by grad() without .create_graph?",
      op);
  if (!given.defined()) {
    check(y.numel() == 1,
          "{}: the output has shape {}; a gradient must be given unless it has "
          "one element",
          op, y.shape());
    return ones(y.shape(), y.dtype());
  }
  check(given.shape() == y.shape() && given.dtype() == y.dtype(),
        "{}: the output is {} {}, the gradient given {} {}", op, y.dtype(), y.shape(),
        given.dtype(), given.shape());
  return given;
}

/// A pass inside another pass (of a checkpoint, a hook, on_ready) may meet leaves that the outer
/// pass has marked, or nodes with its pending gradients. This class saves both and restores them at
/// its end.
class SetAside {
 public:
  SetAside() = default;
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;
  ~SetAside() {
    for (Entry& e : entries_) {
      e.node->mark = e.mark;
      e.node->pending = std::move(e.pending);
    }
  }
  void take(Node* node) {
    if (!pass_runs || (node->mark == 0 && !node->pending.defined())) return;
    entries_.push_back({Ref<Node>(node), node->mark, std::move(node->pending)});
    node->pending = {};
  }

 private:
  struct Entry {
    Ref<Node> node;
    uint64_t mark;
    Tensor pending;
  };
  std::vector<Entry> entries_;
};

// Marks the nodes between the outputs and the inputs with the run's number.
void mark_path(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs, uint64_t run,
               uint64_t since, SetAside& aside) {
  std::vector<Node*> nodes = reachable(nodes_of(outputs), since);
  std::sort(nodes.begin(), nodes.end(), older);
  std::unordered_set<Node*> targets;
  for (const Tensor& t : inputs)
    if (t.requires_grad()) targets.insert(t.node().get());
  for (Node* n : nodes) {
    bool needed = targets.contains(n);
    for (const Ref<Node>& i : n->inputs) needed |= i && i->mark == run;
    if (!needed) continue;
    aside.take(n);
    n->mark = run;
  }
}

}  // namespace

void backward(const Tensor& loss, const BackwardOptions& options) {
  NoGradGuard guard;
  SetAside aside;  // declared before the engine, so that it restores after the engine is gone
  Engine engine(/*to_leaves=*/true, /*create_graph=*/false, options.retain_graph);
  Tensor gradient = seed("backward", loss, options.gradient);
  Node* root = loss.node().get();
  if (pass_runs)
    for (Node* n : reachable({root}))
      if (!n->is_leaf()) aside.take(n);  // other threads may use the leaves
  if (options.on_ready) engine.count_for(root, options.on_ready);
  engine.deliver(root, std::move(gradient));
  if (options.on_ready) engine.settle(root);
  engine.run([](Node*, const Tensor&) {});
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  return detail::grad_since(0, outputs, inputs, options);
}

std::vector<Tensor> detail::grad_since(uint64_t since, const std::vector<Tensor>& outputs,
                                       const std::vector<Tensor>& inputs,
                                       const GradOptions& options) {
  check(options.gradients.empty() || options.gradients.size() == outputs.size(),
        "grad: {} outputs, but {} gradients", outputs.size(), options.gradients.size());
  for (const Tensor& t : inputs)
    check(t.requires_grad(), "grad: an input of shape {} does not require a gradient", t.shape());
  SetAside aside;  // declared before the engine, so that it restores after the engine is gone
  Engine engine(/*to_leaves=*/false, options.create_graph,
                options.retain_graph || options.create_graph, since);
  for (const Tensor& t : inputs) engine.claim(t.node().get());
  mark_path(outputs, inputs, engine.run_id(), since, aside);
  std::vector<Tensor> found(inputs.size());
  {
    NoGradGuard off;
    std::optional<EnableGradGuard> on;
    if (options.create_graph) on.emplace();
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor g = options.gradients.empty() ? Tensor() : options.gradients[i];
      g = seed("grad", outputs[i], g);
      if (outputs[i].node()->mark == engine.run_id())
        engine.deliver(outputs[i].node().get(), std::move(g));
    }
    engine.run([&](Node* node, const Tensor& g) {
      for (size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].node().get() == node) found[i] = g;
    });
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    check(found[i].defined() || options.allow_unused,
          "grad: the outputs do not depend on input {} of shape {}; ask for allow_unused to get an "
          "undefined gradient",
          i, inputs[i].shape());
  return found;
}

void detail::backward_since(uint64_t since, const Tensor& output, Tensor gradient,
                            const std::vector<Tensor>& ends) {
  NoGradGuard guard;
  Engine engine(/*to_leaves=*/true, /*create_graph=*/false, /*retain_graph=*/false, since);
  engine.deliver(output.node().get(), std::move(gradient));
  engine.run([&](Node* node, const Tensor& g) {
    for (const Tensor& end : ends)
      if (end.node().get() == node) node->pending = g;
  });
}

std::vector<Ref<LeafNode>> detail::leaf_nodes(const Tensor& output) {
  std::vector<Ref<LeafNode>> out;
  for (Node* n : reachable(nodes_of({output}))) {
    if (!n->is_leaf()) continue;
    auto* leaf = static_cast<LeafNode*>(n);
    if (!leaf->frozen() && (leaf->owner || !leaf->known)) out.emplace_back(leaf);
  }
  return out;
}

std::vector<Tensor> leaves(const Tensor& output) { return detail::made_from(output, 0); }

std::vector<Tensor> detail::made_from(const Tensor& output, uint64_t since) {
  std::vector<Tensor> out;
  for (Node* n : reachable(nodes_of({output}), since)) {
    if (n->is_leaf()) {
      auto* leaf = static_cast<LeafNode*>(n);
      if (leaf->owner && !leaf->frozen()) out.push_back(Tensor(Ref<TensorImpl>(leaf->owner)));
    } else if (n->sequence <= since) {
      Fresh stand_in(Shape(0), n->dtype);
      stand_in.ref()->set_node(Ref<Node>(n));
      out.push_back(Tensor(stand_in.ref()));
    }
  }
  return out;
}

}  // namespace tern
