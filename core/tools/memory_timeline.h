// Who holds the memory of tensors, and when.
//
//   MemoryTimeline timeline;
//   train_step();
//   fmt::print("{}", timeline.report());       // the peak, and the largest tensors at that moment
//   timeline.write_trace("memory.json");       // for chrome://tracing and ui.perfetto.dev
//
// While one lives, the error of a memory cap that is hit (set_memory_cap) lists the largest tensors
// and the ops that made them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tern/core/tape/op.h"

namespace tern {

/// Watches all tensors that are made while it lives, by any thread; names ops and modules. One at a
/// time in a process; a second is an Error.
class MemoryTimeline final : private Observer {
 public:
  MemoryTimeline();
  MemoryTimeline(const MemoryTimeline&) = delete;
  MemoryTimeline& operator=(const MemoryTimeline&) = delete;
  ~MemoryTimeline() override;

  struct Block {
    int64_t bytes = 0;
    std::string maker;   ///< "linear", "gelu backward", "full in AdamW"; empty: no op was at work
    std::string module;  ///< empty where it is unknown
  };
  /// The largest tensors alive now, the largest first.
  std::vector<Block> largest(size_t most = 10) const;
  /// The same at the moment of the peak, which is known to 1 %.
  std::vector<Block> largest_at_peak(size_t most = 10) const;
  int64_t live_bytes() const;  ///< of tensors made since it began
  int64_t peak_bytes() const;

  /// The peak and now in words, with the largest tensors of both.
  std::string report(size_t most = 10) const;
  /// Live bytes over time as a JSON trace; IoError if the file cannot be written.
  void write_trace(const std::string& path) const;

 private:
  class Ledger;
  std::unique_ptr<Ledger> ledger_;
  ObserverScope watching_;  // so that ops without parameters know their modules
};

}  // namespace tern
