// Shows which tensors take memory, and when.
//
//   MemoryTimeline timeline;
//   train_step();
//   fmt::print("{}", timeline.report());       // the peak, and the largest tensors at that moment
//   timeline.write_trace("memory.json");       // for chrome://tracing and ui.perfetto.dev
//
// While one exists, the error for exceeding a memory cap (set_memory_cap) lists the largest tensors
// and the ops that made them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tern/core/tape/op.h"

namespace tern {

/// Watches all tensors that any thread makes while this object exists, with their ops and modules.
/// Only one may exist in a process; a second is an Error.
class MemoryTimeline final : private Observer {
 public:
  [[nodiscard]] MemoryTimeline();
  MemoryTimeline(const MemoryTimeline&) = delete;
  MemoryTimeline& operator=(const MemoryTimeline&) = delete;
  ~MemoryTimeline() override;

  struct Block {
    int64_t bytes = 0;
    std::string maker;   ///< "linear", "gelu backward", "full in AdamW"; empty outside of all ops
    std::string module;  ///< empty if unknown
  };
  /// The tensors alive now, largest first, at most `most`.
  std::vector<Block> largest(size_t most = 10) const;
  /// The same at the peak, which is accurate to 1 %.
  std::vector<Block> largest_at_peak(size_t most = 10) const;
  int64_t live_bytes() const;  ///< of tensors made since the timeline began
  int64_t peak_bytes() const;

  /// The peak and the current state as text, with the largest tensors of both.
  std::string report(size_t most = 10) const;
  /// Writes live bytes over time as a JSON trace. IoError if that fails.
  void write_trace(const std::string& path) const;

 private:
  class Ledger;
  std::unique_ptr<Ledger> ledger_;
  ObserverScope watching_;  // finds modules for ops without parameters
};

}  // namespace tern
