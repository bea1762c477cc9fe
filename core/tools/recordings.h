// Compares two recordings of a model (activation_recorder.h, bench/record_torch.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/core/io/safetensors.h"

namespace tern {

struct DivergenceOptions {
  /// Tensors differ if two elements are farther apart than atol + rtol * (the largest element).
  double rtol = 1e-4, atol = 1e-6;
};

/// Two entries with the same kind, module and call.
struct Comparison {
  std::string kind;              ///< output, gradient, weight
  std::string module;            ///< or the parameter
  int64_t call = 1;              ///< of that module: 1, 2, ...
  Shape shape;                   ///< of the first recording
  double max_abs = 0;            ///< largest difference; infinite if one side is NaN or infinite
  double relative = 0;           ///< max_abs over the largest element
  Dims at;                       ///< index of the largest difference
  double first = 0, second = 0;  ///< the elements there
  bool differs = false;

  /// "output of up (3, 8): largest difference 0.5, 0.3 of the largest element, at (0, 2): 1 and
  /// 1.5".
  std::string line() const;
};

struct Divergence {
  /// In the order of the first file: outputs in forward order, then gradients in backward order,
  /// then gradients of parameters.
  std::vector<Comparison> compared;
  std::vector<std::string> only_first, only_second, other_shapes;  ///< entries not compared

  /// The first entry that differs, or null.
  const Comparison* first() const;
  std::string report() const;
};

/// Matches entries by kind, module and number of the call. Shapes may differ by joined leading
/// axes: (2, 3, 8) and (6, 8). IoError if one is not a recording, Error if they have nothing in
/// common.
Divergence first_divergence(const SafeTensors& first, const SafeTensors& second,
                            const DivergenceOptions& options = {});

}  // namespace tern
