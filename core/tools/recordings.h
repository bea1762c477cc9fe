// Where two recordings of a model part (activation_recorder.h, bench/record_torch.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/core/io/safetensors.h"

namespace tern {

struct DivergenceOptions {
  /// Tensors differ where an element of one is farther from the other's than
  /// atol + rtol * (the largest element there is).
  double rtol = 1e-4, atol = 1e-6;
};

/// Two entries of one kind, module and call.
struct Comparison {
  std::string kind;              ///< output, gradient, weight
  std::string module;            ///< or parameter
  int64_t call = 1;              ///< of that module: 1, 2, ...
  Shape shape;                   ///< of the first
  double max_abs = 0;            ///< largest difference; infinite where one side is NaN or infinite
  double relative = 0;           ///< that over the largest element
  Dims at;                       ///< where
  double first = 0, second = 0;  ///< the elements there
  bool differs = false;

  std::string line() const;  ///< "output of up (3, 8): max |difference| 0.5 at (0, 2): 1 and 1.5"
};

struct Divergence {
  /// In the order of the first file: outputs in that of its forward pass, then gradients in that of
  /// its backward pass, then those of parameters.
  std::vector<Comparison> compared;
  std::vector<std::string> only_first, only_second, other_shapes;  ///< what was not compared

  /// The first that differs; null: none does.
  const Comparison* first() const;
  std::string report() const;
};

/// Entries are matched by kind, module and the number of the call; shapes may differ by leading
/// axes that are joined: (2, 3, 8) and (6, 8). IoError if one is no recording, Error if they have
/// nothing in common.
Divergence first_divergence(const SafeTensors& first, const SafeTensors& second,
                            const DivergenceOptions& options = {});

}  // namespace tern
