// What a training program may do to take less memory.
#pragma once

#include <cstdint>
#include <string>

#include "tern/train/learner.h"

namespace CLI {
class App;
}

namespace tern::apps {

struct MemoryOptions {
  bool step_in_backward = false;   ///< train::LearnerOptions
  std::string recompute = "none";  ///< nn::Recompute, of the model's blocks
  int64_t optimizer_bits = 32;     ///< or 8: AdamWOptions::state_bits

  bool operator==(const MemoryOptions&) const = default;
};

/// --step-in-backward and --optimizer-bits.
void add_memory_flags(CLI::App& app, MemoryOptions& options);
/// --recompute, for programs whose models have blocks.
void add_recompute_flag(CLI::App& app, MemoryOptions& options);

/// Error where they go together with what needs all gradients at a time: the flags --clip and
/// --accumulate.
void check_memory(const MemoryOptions& options, double clip, int64_t accumulate);
/// Error unless they are such options: they may come from a file.
void check_memory(const MemoryOptions& options);

/// Error where the optimizer of that name (train::optimizer_names) keeps no state of so many bits.
void check_optimizer_bits(const std::string& optimizer, const MemoryOptions& options);

/// ", optimizer state of 8 bits" and so on; empty where they are the defaults.
std::string describe_memory(const MemoryOptions& options);

}  // namespace tern::apps
