// Fused ops as the ops that they consist of, for observers that need to see each step.
#pragma once

namespace tern {

/// While one exists, ops of this thread that have a composed definition of simpler ops run that
/// instead of their kernel: linear, attention, fused(), rms_norm, norms of sums, patches, recurrent
/// cells and layers, additive scores, linear scans, steps of a Neural Turing Machine. Results are
/// equal up to rounding, and slower. Softmax, layer_norm and convolutions stay whole.
class ComposedScope {
 public:
  ComposedScope();
  ~ComposedScope();
  ComposedScope(const ComposedScope&) = delete;
  ComposedScope& operator=(const ComposedScope&) = delete;

 private:
  bool before_;
};

namespace detail {
/// Whether a ComposedScope is open in this thread.
bool composing();
}  // namespace detail

}  // namespace tern
