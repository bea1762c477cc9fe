// Fused ops as the ops that they consist of, for observers that need to see each step.
#pragma once

#include "tern/core/base/restored.h"

namespace tern {

/// While one exists, ops of this thread that have a composed definition of simpler ops run that
/// instead of their kernel: linear, attention, fused(), rms_norm, norms of sums, patches, recurrent
/// cells and layers, additive scores, linear scans, steps of a Neural Turing Machine. Results are
/// equal up to rounding, and slower. Softmax, layer_norm and convolutions stay whole.
class ComposedScope {
 public:
  [[nodiscard]] ComposedScope();
  ~ComposedScope();

 private:
  detail::Restored<bool> mode_;
};

namespace detail {
/// Whether a ComposedScope is open in this thread.
bool composing();
}  // namespace detail

}  // namespace tern
