// Runs a training step in a ShapeOnlyScope and derives memory by kind, the peak and operations by
// module from the sequence of allocations, releases and ops.
#include "tern/core/tools/step_cost.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "tern/core/base/flops.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern {
namespace {

enum class Phase { setup, batch, forward, backward, update };

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// A block of memory in the sequence of events: its allocation and its release.
struct StepBlock {
  int64_t bytes;
  Phase phase;
  int64_t born, dead = kNever;
  size_t module;  // index of its row
};

bool shares(const Tensor& a, const Tensor& b) {
  return a.defined() && a.ref()->storage == b.ref()->storage;
}

bool is_view(const OpScope& op, const Tensor& result) {
  for (int i = 0; i < op.num_inputs(); ++i)
    if (shares(op.input(i), result)) return true;
  return false;
}

// Whether the op took parameters and returned more than a view of them.
bool has_parameter(const OpScope& op, const Tensor& result) {
  bool found = false;
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (parameter_name(op.input(i)).empty()) continue;
    if (shares(op.input(i), result)) return false;
    found = true;
  }
  return found;
}

/// Records the events. Only the thread of the step calls it.
class Ledger final : public Observer, public detail::AllocationListener {
 public:
  Ledger() { rows_.reserve(64); }

  void begin_phase(Phase phase) { phase_ = phase; }
  void end_phase() { ends_.emplace_back(phase_, events_); }

  void allocated(void* p, std::size_t bytes) override {
    const OpScope* op = current_op();
    const auto size = static_cast<int64_t>(bytes);
    blocks_.push_back({size, phase_, events_++, kNever, row(op ? op->module() : "")});
    alive_[p] = blocks_.size() - 1;
    live_ += size;
    if (live_ <= peak_) return;
    peak_ = live_;
    peak_event_ = blocks_.back().born;
    peak_name_ = op ? op->name() : "";
    peak_pass_ = op ? op->pass() : Pass::forward;
    peak_row_ = blocks_.back().module;
  }
  void freed(void* p) noexcept override {
    auto it = alive_.find(p);
    if (it == alive_.end()) return;
    StepBlock& block = blocks_[it->second];
    block.dead = events_++;
    live_ -= block.bytes;
    alive_.erase(it);
  }
  std::string describe() const override { return ""; }

  void begin(const OpScope& op) override { open_.push_back({&op, detail::counted_flops, 0}); }
  void made(const OpScope& op, const Tensor& result, int) override {
    if (op.pass() == Pass::backward || !result.defined() || phase_ != Phase::forward) return;
    ModuleCost& module = rows_[row(op.module())];
    if (!is_view(op, result)) module.last = result.shape();
    if (!has_parameter(op, result)) return;
    module.op = op.name();
    module.output = result.shape();
  }
  void end(const OpScope& op) noexcept override {
    if (open_.empty() || open_.back().op != &op) return;
    const Open open = open_.back();
    open_.pop_back();
    const int64_t all = detail::counted_flops - open.flops_before;
    if (counting_) flops_of_phase(row(op.module())) += all - open.inner_flops;
    if (!open_.empty()) open_.back().inner_flops += all;
  }
  /// Turns the count of operations on or off: only one of the two steps counts.
  void count(bool on) { counting_ = on; }

  StepCost cost(const NamedTensors& weights) const;

 private:
  struct Open {
    const OpScope* op;
    int64_t flops_before, inner_flops;
  };

  size_t row(const std::string& module) {
    auto [at, is_new] = row_of_.try_emplace(module, rows_.size());
    if (is_new) rows_.push_back({.module = module});
    return at->second;
  }

  // Chooses by phase, not by the op's pass: recomputation for the gradients has the pass `forward`.
  int64_t& flops_of_phase(size_t row) {
    if (phase_ == Phase::forward) return rows_[row].forward_flops;
    return phase_ == Phase::backward ? rows_[row].backward_flops : update_flops_;
  }

  int64_t end_of_phase(const StepBlock& b) const;
  MemoryKind kind_of(const StepBlock& b) const;
  MemoryByKind most() const;

  Phase phase_ = Phase::setup;
  std::vector<StepBlock> blocks_;
  std::unordered_map<void*, size_t> alive_;
  std::vector<std::pair<Phase, int64_t>> ends_;  // each phase, with the number of the next event
  int64_t events_ = 0, live_ = 0, peak_ = 0, peak_event_ = 0;
  const char* peak_name_ = "";
  Pass peak_pass_ = Pass::forward;
  size_t peak_row_ = 0;
  std::vector<Open> open_;
  bool counting_ = false;
  int64_t update_flops_ = 0;
  std::vector<ModuleCost> rows_;
  std::unordered_map<std::string, size_t> row_of_;
};

int64_t Ledger::end_of_phase(const StepBlock& b) const {
  for (const auto& [phase, end] : ends_)
    if (phase == b.phase && end > b.born) return end;
  return kNever;
}

MemoryKind Ledger::kind_of(const StepBlock& b) const {
  const bool stays = b.dead >= end_of_phase(b);
  switch (b.phase) {
    case Phase::setup:
    case Phase::update:
      return stays ? MemoryKind::optimizer : MemoryKind::temporaries;
    case Phase::batch:
      return stays ? MemoryKind::batch : MemoryKind::temporaries;
    case Phase::forward:
      return stays ? MemoryKind::activations : MemoryKind::temporaries;
    case Phase::backward:
      return stays ? MemoryKind::gradients : MemoryKind::temporaries;
  }
  return MemoryKind::temporaries;
}

// The maximum over time of each kind's sum.
MemoryByKind Ledger::most() const {
  struct Change {
    int64_t event, bytes;
    MemoryKind kind;
  };
  std::vector<Change> changes;
  for (const StepBlock& b : blocks_) {
    changes.push_back({b.born, b.bytes, kind_of(b)});
    if (b.dead != kNever) changes.push_back({b.dead, -b.bytes, kind_of(b)});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.event < b.event; });
  MemoryByKind now, most;
  for (const Change& c : changes) {
    now[c.kind] += c.bytes;
    most[c.kind] = std::max(most[c.kind], now[c.kind]);
  }
  return most;
}

StepCost Ledger::cost(const NamedTensors& weights) const {
  StepCost cost;
  cost.most = most();
  for (const StepBlock& b : blocks_)
    if (b.born <= peak_event_ && b.dead > peak_event_) cost.at_peak[kind_of(b)] += b.bytes;
  std::unordered_set<const detail::Storage*> seen;
  for (const auto& [name, t] : weights)
    if (const detail::Storage* s = t.ref()->storage.get(); seen.insert(s).second)
      cost.at_peak[MemoryKind::weights] += static_cast<int64_t>(s->bytes());
  cost.most[MemoryKind::weights] = cost.at_peak[MemoryKind::weights];
  const std::string module = rows_.empty() ? "" : rows_[peak_row_].module;
  cost.peak_op =
      fmt::format("{}{}{}{}", peak_name_, peak_pass_ == Pass::backward ? " backward" : "",
                  module.empty() ? "" : " in ", module);
  cost.modules = rows_;
  int64_t last_forward = -1;
  for (const auto& [phase, end] : ends_)
    if (phase == Phase::forward) last_forward = end;
  for (const StepBlock& b : blocks_)  // of the last forward pass
    if (kind_of(b) == MemoryKind::activations && end_of_phase(b) == last_forward)
      cost.modules[b.module].saved_bytes += b.bytes;
  for (const ModuleCost& m : cost.modules) {
    cost.forward_flops += m.forward_flops;
    cost.backward_flops += m.backward_flops;
  }
  cost.update_flops = update_flops_;
  return cost;
}

}  // namespace

const char* name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::weights:
      return "weights";
    case MemoryKind::optimizer:
      return "optimizer";
    case MemoryKind::gradients:
      return "gradients";
    case MemoryKind::batch:
      return "batch";
    case MemoryKind::activations:
      return "activations";
    case MemoryKind::temporaries:
      return "temporaries";
  }
  return "";
}

int64_t MemoryByKind::total() const {
  int64_t sum = 0;
  for (int64_t b : bytes) sum += b;
  return sum;
}

StepCost step_cost(const TrainingStep& step, const NamedTensors& weights) {
  check(step.accumulate >= 1, "step_cost: {} passes per update; at least 1", step.accumulate);
  Ledger ledger;
  ShapeOnlyScope shapes(&ledger);
  ObserverScope watching(ledger);
  EnableGradGuard recording;
  auto phase = [&](Phase p, auto&& run) {
    ledger.begin_phase(p);
    run();
    ledger.end_phase();
  };
  phase(Phase::setup, [&] {
    if (step.setup) step.setup();
  });
  phase(Phase::batch, [&] {
    if (step.batch) step.batch();
  });
  for (bool last : {false, true}) {  // the first step creates the optimizer's state
    ledger.count(last);
    for (int64_t i = 0; i < step.accumulate; ++i) {
      Tensor loss;
      phase(Phase::forward, [&] {
        loss = step.loss();
        if (loss.numel() != 1) loss = sum(loss);
      });
      phase(Phase::backward, [&] {
        if (step.backward)
          step.backward(loss);
        else
          backward(loss);
        loss = {};
      });
    }
    phase(Phase::update, [&] {
      if (step.update) step.update();
    });
  }
  return ledger.cost(weights);
}

}  // namespace tern
