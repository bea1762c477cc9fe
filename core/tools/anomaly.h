// Finds the op that made the first NaN, forward or backward.
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
  /// Also stop at an infinity that comes from finite inputs. Some ops make infinities on purpose:
  /// log(0), masked_fill, log_softmax under a mask; those that write given values are passed by.
  bool infinities = false;
};

/// While it lives, the first op of this thread with a NaN in a result or in a gradient that it
/// sends back throws an Error with the op, the module, and the ranges of its inputs. It says
/// whether the op made the NaN or was given it, by the data or a weight. (An op that is given a NaN
/// and gives none, such as isnan or where, is passed by.) Costs a pass over every result: for
/// looking, not for every step.
class AnomalyDetector final : private Observer {
 public:
  explicit AnomalyDetector(const AnomalyOptions& options = {});
  AnomalyDetector(const AnomalyDetector&) = delete;
  AnomalyDetector& operator=(const AnomalyDetector&) = delete;
  ~AnomalyDetector() override = default;

  /// Where infinities first came from finite inputs, in the words of an error; empty if nowhere.
  const std::string& first_infinity() const { return first_infinity_; }
  /// The first op that was given a NaN no op had made: by the data, or a weight. If its result had
  /// one as well, that was thrown.
  const std::string& first_given() const { return first_given_; }

 private:
  void begin(const OpScope& op) override;
  void made(const OpScope& op, const Tensor& result, int index) override;
  void end(const OpScope& op) noexcept override;
  std::string outermost_given() const;
  struct Open {
    const OpScope* scope;
    bool nan_came_in, infinity_came_in;
    std::vector<bool> nan_gathered, infinity_gathered;  // in gradients before, by input
    std::string gradient;  // in backward, whose input may be gone when results are there
    std::string given;     // what to say of a NaN that came in; empty: none, or it is not read
  };

  AnomalyOptions options_;
  std::string first_infinity_, first_given_;
  std::vector<Open> open_;
  ObserverScope watching_;
};

}  // namespace tern
