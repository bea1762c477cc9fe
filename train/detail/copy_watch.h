// Finds an evaluation that runs a copy of the model. Inside of train only.
#pragma once

#include <set>
#include <string>
#include <unordered_set>

#include "tern/core/io/state.h"
#include "tern/core/tape/op.h"

namespace tern::training {

/// Watches the ops of an evaluation. Modules are values: a lambda with [=], or a std::function made
/// of a module, holds a copy with weights of its own, which no training changes.
class CopyWatch final : public Observer {
 public:
  void begin(const OpScope& op) override;
  void made(const OpScope& op, const Tensor& result, int index) override;
  /// Error if an op has used a copy of one of these parameters that was made before this watch, and
  /// none the parameter itself. Copies that a module walk has found, as of a teacher, do not count.
  void check_used(const NamedTensors& parameters) const;

 private:
  std::unordered_set<const void*> used_, fresh_;  // storages; fresh_: written under this watch
  std::set<std::string> copied_;                  // the names of the originals
};

}  // namespace tern::training
