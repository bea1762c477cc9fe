// Builds the tree of modules from the costs of the ops, formats it as a table, and simulates a
// training step without changing the model.
#include "tern/train/summary.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/adam.h"
#include "tern/train/progress.h"

namespace tern {
namespace {

// ---- Restoring the model -----------------------------------------------------------------------

/// Saves the state that a step changes: modes, generators and gradients. In a ShapeOnlyScope ops do
/// not write elements; buffers are saved too, for models that write theirs by hand.
class ModelState {
 public:
  explicit ModelState(const nn::ModuleRef& model) : slots_(nn::detail::walk(model)) {
    for (const nn::detail::Slot& s : slots_)
      if (auto* const* mode = std::get_if<nn::TrainingMode*>(&s.field))
        modes_.emplace_back(*mode, (*mode)->wanted());
    for (const Rng* rng : nn::detail::generators(slots_)) generators_.push_back(*rng);
    for (const auto& [name, t] : nn::detail::named_buffers(slots_))
      buffers_.emplace_back(t, t.clone());
    for (const auto& [name, t] : nn::detail::named_parameters(slots_))
      if (t.requires_grad()) gradients_.emplace_back(t, t.grad());
    for (const auto& [t, g] : gradients_) t.set_grad({});
    nn::detail::set_training(slots_, true);
  }
  ~ModelState() {
    NoGradGuard no_grad;
    for (auto& [mode, before] : modes_) *mode = before;
    size_t i = 0;
    for (Rng* rng : nn::detail::generators(slots_)) *rng = generators_[i++];
    for (const auto& [t, value] : buffers_) copy_(t, value);
    for (const auto& [t, g] : gradients_)
      if (t.requires_grad()) t.set_grad(g);
  }
  ModelState(const ModelState&) = delete;
  ModelState& operator=(const ModelState&) = delete;

 private:
  nn::detail::Slots slots_;
  std::vector<std::pair<nn::TrainingMode*, bool>> modes_;
  std::vector<Rng> generators_;
  std::vector<std::pair<Tensor, Tensor>> buffers_, gradients_;
};

// ---- The tree ---------------------------------------------------------------------------------

/// A module; its sums include the modules below it.
struct Branch {
  std::string name;  ///< "layers", "0", "linear1"
  std::string op;
  Shape output = {};
  bool known = false;  ///< whether the output is known
  int64_t weights = 0, flops = 0, saved = 0;
  std::vector<Branch> below = {};

  Branch& child(const std::string& n) {
    for (Branch& b : below)
      if (b.name == n) return b;
    below.push_back({n, {}});
    return below.back();
  }
};

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    parts.push_back(path.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

/// Calls fn for the root and for every branch on the way to `path`. Returns the last one.
template <class Fn>
Branch& on_the_way(Branch& root, const std::string& path, Fn fn) {
  Branch* b = &root;
  fn(*b);
  for (const std::string& part : parts_of(path)) fn(*(b = &b->child(part)));
  return *b;
}

std::string module_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == parameter.npos ? "" : parameter.substr(0, dot);
}

Branch grow(const StepCost& cost, const NamedTensors& parameters) {
  Branch root{"", {}};
  for (const auto& [name, t] : parameters)
    on_the_way(root, module_of(name), [n = t.numel()](Branch& b) { b.weights += n; });
  for (const ModuleCost& m : cost.modules) {
    Branch& own = on_the_way(root, m.module, [&](Branch& b) {
      b.flops += m.forward_flops;
      b.saved += m.saved_bytes;
      if (m.last.empty() && m.op.empty()) return;
      b.output = m.last;  // the output of the last module below it
      b.known = true;
    });
    own.op = m.op;
  }
  return root;
}

// A module without modules below it shows the output of the op that used its parameters, not that
// of later ops.
void show_own_outputs(Branch& root, const StepCost& cost) {
  for (const ModuleCost& m : cost.modules) {
    Branch& own = on_the_way(root, m.module, [](Branch&) {});
    if (own.below.empty() && !m.op.empty()) own.output = m.output;
  }
}

/// Joins a module and its only child: "layers" with the one module "0" becomes "layers.0".
void join_single(Branch& b) {
  for (Branch& c : b.below) {
    while (c.below.size() == 1 && c.op.empty() && c.below[0].weights == c.weights) {
      Branch only = std::move(c.below[0]);
      only.name = c.name + "." + only.name;
      only.flops = c.flops;
      only.saved = c.saved;
      c = std::move(only);
    }
    join_single(c);
  }
}

bool alike(const Branch& a, const Branch& b) {
  return a.op == b.op && a.output == b.output && a.weights == b.weights && a.flops == b.flops &&
         a.saved == b.saved &&
         std::equal(
             a.below.begin(), a.below.end(), b.below.begin(), b.below.end(),
             [](const Branch& x, const Branch& y) { return x.name == y.name && alike(x, y); });
}

bool is_number(const std::string& s) {
  return !s.empty() && s.find_first_not_of("0123456789") == s.npos;
}

double giga(int64_t n) { return static_cast<double>(n) / 1e9; }
double mega(int64_t n) { return static_cast<double>(n) / 1e6; }

struct Line {
  std::string module, op, output, weights, flops, saved;
};

Line line_of(const Branch& b, const std::string& name, int depth) {
  return {std::string(static_cast<size_t>(2 * depth), ' ') + name,
          b.below.empty() ? b.op : "",
          b.known ? fmt::format("{}", b.output) : "",
          b.weights ? training::grouped(b.weights) : "",
          b.flops ? fmt::format("{:.3f}", giga(b.flops)) : "",
          fmt::format("{:.1f}", mega(b.saved))};
}

void add_lines(const Branch& b, int depth, std::vector<Line>& lines) {
  for (size_t i = 0; i < b.below.size();) {
    size_t end = i + 1;
    if (is_number(b.below[i].name))
      while (end < b.below.size() && is_number(b.below[end].name) &&
             alike(b.below[i], b.below[end]))
        ++end;
    const std::string& first = b.below[i].name;
    const std::string name =
        end - i == 1 ? first : fmt::format("{}-{}: {} x", first, b.below[end - 1].name, end - i);
    lines.push_back(line_of(b.below[i], name, depth));
    add_lines(b.below[i], depth + 1, lines);
    i = end;
  }
}

}  // namespace

int64_t Summary::num_parameters() const {
  int64_t n = 0;
  for (const auto& [name, t] : parameters) n += t.numel();
  return n;
}

std::string Summary::tree() const {
  Branch root = grow(cost, parameters);
  show_own_outputs(root, cost);
  join_single(root);
  std::vector<Line> lines = {{"module", "op", "output", "weights", "GFLOP", "saved MB"}};
  add_lines(root, 0, lines);
  root.known = false;
  lines.push_back(line_of(root, "total", 0));
  size_t module = 0, op = 0, output = 0, weights = 0;
  for (const Line& l : lines) {
    module = std::max(module, l.module.size());
    op = std::max(op, l.op.size());
    output = std::max(output, l.output.size());
    weights = std::max(weights, l.weights.size());
  }
  std::string text;
  for (const Line& l : lines)
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>9}  {:>9}\n", l.module, module, l.op,
                        op, l.output, output, l.weights, weights, l.flops, l.saved);
  return text;
}

std::string Summary::costs() const {
  std::string text = fmt::format("a training step: forward {:.3f} GFLOP, backward {:.3f} GFLOP",
                                 giga(cost.forward_flops), giga(cost.backward_flops));
  if (cost.update_flops > 0) text += fmt::format(", update {:.3f} GFLOP", giga(cost.update_flops));
  text += fmt::format("\n{:<30} {:>10} {:>14}\n", "its memory, MB", "most", "at the peak");
  for (int k = 0; k < kMemoryKinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    text += fmt::format("{:<30} {:>10.1f} {:>14.1f}\n", name(kind), mega(cost.most[kind]),
                        mega(cost.at_peak[kind]));
  }
  const int64_t weights = std::max<int64_t>(num_parameters(), 1);
  return text + fmt::format("{:<30} {:>10} {:>14.1f}   in {}, {:.1f} bytes per weight\n", "peak",
                            "", mega(cost.peak()), cost.peak_op,
                            static_cast<double>(cost.peak()) / static_cast<double>(weights));
}

Summary summary_of_step(const nn::ModuleRef& model, TrainingStep step) {
  const ModelState kept(model);
  StepCost cost = step_cost(step, nn::state_dict(model));
  return {std::move(cost), nn::named_parameters(model)};
}

namespace {

// The load of each of the model's parameters; 0 for those that the optimizer does not have.
std::vector<optim::ShardItem> shard_items(const NamedTensors& parameters,
                                          const optim::Optimizer& optimizer) {
  std::unordered_map<const void*, optim::ShardItem> items;
  const NamedTensors own = optimizer.parameters();
  for (size_t i = 0; i < own.size(); ++i)
    items[own[i].second.ref().get()] = {optimizer.state_bytes(i), own[i].second.numel()};
  std::vector<optim::ShardItem> list;
  for (const auto& [name, p] : parameters) list.push_back(items[p.ref().get()]);
  return list;
}

}  // namespace

Summary detail::summarize(const nn::ModuleRef& model, std::function<Tensor()> loss,
                          const SummaryOptions& options) {
  check(options.optimizer_ranks >= 1,
        "summary: the optimizer's states are for {} ranks; at least 1", options.optimizer_ranks);
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<training::Learner> learner;
  TrainingStep step;
  step.setup = [&] {
    const NamedTensors parameters = nn::named_parameters(model);
    optimizer = options.optimizer ? options.optimizer(parameters)
                                  : std::make_unique<optim::AdamW>(parameters);
    if (options.optimizer_ranks > 1) optim::keep_largest_shard(*optimizer, options.optimizer_ranks);
    learner.emplace(model, *optimizer, options.learner);
  };
  step.batch = options.batch;
  step.loss = std::move(loss);
  step.backward = [&](const Tensor& y) {
    learner->backward(y, 1 / static_cast<double>(options.accumulate));
  };
  step.update = [&] { learner->step(); };
  step.accumulate = options.accumulate;
  Summary s = summary_of_step(model, std::move(step));
  s.shard_items = shard_items(s.parameters, *optimizer);
  s.optimizer_ranks = options.optimizer_ranks;
  return s;
}

}  // namespace tern
