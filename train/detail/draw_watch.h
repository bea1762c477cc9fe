// Finds generators of a program from which steps draw: those that its checkpoint lacks, and those
// that ranks cannot share.
// Inside of train only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/train/checkpoint.h"

namespace tern::training {

class DrawWatch {
 public:
  /// With on = false it only takes the steps.
  explicit DrawWatch(bool on) : on_(on) {}
  /// Takes a step. Watches the first ones, and notes the generators that continue from one to the
  /// next.
  void take(const std::function<void()>& step);
  /// Error if a generator noted since the last call is neither in `known` nor in the checkpoint,
  /// which is null in steps that ranks share: they set only the generators of the model, `known`.
  void check_kept(const std::vector<std::vector<Rng>>& known, const Checkpoint* checkpoint);

 private:
  bool on_;
  int64_t steps_ = 0;
  std::map<uint64_t, uint64_t> begins_;  // by key: where the draws of its first step began
  std::vector<uint64_t> moved_;          // keys of generators that began elsewhere in a later one
  std::set<uint64_t> told_;              // of all that were once in `moved_`
};

}  // namespace tern::training
