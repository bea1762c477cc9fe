// Parity with PyTorch: a reference file holds weights, inputs, outputs, gradients and ten training
// losses (see tests/reference/make_reference.py); a subject is our model built from that file.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/io/safetensors.h"

namespace tern::parity {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// A model with the file's weights in it.
struct Subject {
  NamedTensors parameters;  ///< the live weights, under the file's names
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> forward;
  /// Computes the loss from the outputs and the file's targets; empty if the file has a probe
  /// instead.
  std::function<Tensor(const std::vector<Tensor>& outputs, const std::vector<Tensor>& targets)>
      loss = {};
};

/// The contents of a reference file.
struct Reference {
  std::string name;
  nlohmann::json config;
  NamedTensors parameters;  ///< from "param.<name>"
  NamedTensors gradients;   ///< from "grad.<name>"
  std::vector<Tensor> inputs, outputs, targets;
  Tensor probe, loss, trace;

  /// The parameter with this name; an error if there is none.
  const Tensor& param(const std::string& param_name) const;
  int64_t option(const char* key) const { return config.at(key).get<int64_t>(); }
  int64_t option(const char* key, int64_t otherwise) const { return config.value(key, otherwise); }
};

Reference load_reference(const std::string& path);

/// The subject with this name, built with the sizes in the file; none if the name is unknown.
std::optional<Subject> make_subject(const Reference& reference);

struct Errors {
  double output = 0;  ///< largest |difference| over the outputs
  double loss = 0;    ///< |difference| of the loss
  double grad = 0;    ///< largest |difference| of the gradients / their largest element
  double trace = 0;   ///< largest relative difference of the ten losses
  bool has_loss = false, has_trace = false;
  bool ok = false;
};

/// Runs the subject and compares it with the file. Tolerances: outputs rtol 1.3e-6 * sqrt(n) (n:
/// the longest sum, a weight's fan-in) and atol 1e-5, gradients 1e-4 relative to the largest,
/// traces 1e-4.
Errors compare(const Reference& reference, Subject& subject);

}  // namespace tern::parity
