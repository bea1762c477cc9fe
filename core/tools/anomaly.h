// Finds the first op that made a NaN, in forward or backward.
//
//   AnomalyDetector detector;
//   loss = model(x); loss.backward();
//   // Error: decoder.layers.2.linear1: NaN first seen in linear, forward: 3 of 512 elements of the
//   // result (8, 64) are NaN; inputs: f32 (8, 64) in [-1.2, 1e+38]; f32 (64, 64) in [-0.1, 0.1]
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/core/tape/op.h"

namespace tern {

struct AnomalyOptions {
  /// Also throw at an infinity made from finite inputs. Some ops make infinities on purpose:
  /// log(0), masked_fill, log_softmax under a mask. Ops that write given values are skipped.
  bool infinities = false;
};

/// While one exists, the first op of this thread with a NaN in its result or its gradients throws
/// an Error with the op, the module and the ranges of its inputs. The Error says whether the op
/// made the NaN or got it from the data or a weight. The detector skips ops that get a NaN and
/// return none, such as isnan, and ops that only move elements, such as clone, cat and gather. It
/// reads every result once: use it to debug, not in every step.
class AnomalyDetector final : private Observer {
 public:
  [[nodiscard]] explicit AnomalyDetector(const AnomalyOptions& options = {});
  AnomalyDetector(const AnomalyDetector&) = delete;
  AnomalyDetector& operator=(const AnomalyDetector&) = delete;
  ~AnomalyDetector() override = default;

  /// The first infinity made from finite inputs, as an error text. Empty if there was none.
  const std::string& first_infinity() const { return first_infinity_; }
  /// The first op that got a NaN from the data or a weight, as an error text. If its result had a
  /// NaN too, the Error was thrown.
  const std::string& first_given() const { return first_given_; }

 private:
  void begin(const OpScope& op) override;
  void made(const OpScope& op, const Tensor& result, int index) override;
  void end(const OpScope& op) noexcept override;
  std::string outermost_given() const;
  struct Open {
    const OpScope* scope;
    bool nan_came_in, infinity_came_in;
    std::vector<bool> nan_gathered, infinity_gathered;  // in gradients gathered before, by input
    // Inputs described before the op runs: later a VJP's may be gone, and an in-place op's changed.
    std::string overwritten;
    std::string given;  // about a NaN in the inputs; empty if there is none or the op is a view
  };

  AnomalyOptions options_;
  std::string first_infinity_, first_given_;
  std::vector<Open> open_;
  ObserverScope watching_;
};

}  // namespace tern
