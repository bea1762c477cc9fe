// Checks weights against a configuration. Users can edit configuration files, so their sizes must
// be checked before a model of these sizes is allocated.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

#include "tern/core/base/error.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/io/state.h"
#include "tern/core/io/tensor_file.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/module.h"

namespace tern::apps {

/// IoError, which names the run's configuration, unless the model of make() and the run's
/// checkpoint have the same weights by name and shape. The model is made without memory or
/// arithmetic, so that wrong sizes cost nothing.
template <class Make>
void check_resumed_fits(const SafeTensors& checkpoint, const std::string& config_path, Make make) {
  constexpr std::string_view kModel = "model.";
  NamedTensors weights;
  for (const auto& [name, t] : checkpoint.tensors)
    if (name.starts_with(kModel)) weights.emplace_back(name.substr(kModel.size()), t);
  try {
    ShapeOnlyScope shapes;
    auto model = make();
    nn::load_state_dict(model, weights);
  } catch (const Error& e) {
    fail_io(fmt::format("{}: it describes a different model from the checkpoint beside it: {}",
                        config_path, e.what()));
  }
}

/// IoError, which names the file, unless all its weights are finite. Programs call this before they
/// use weights: other weights give NaN, and a model trained from them cannot be saved.
inline void check_finite_weights(const std::string& path, const NamedTensors& weights) {
  for (const auto& [name, t] : weights)
    check_io(!is_float(t.dtype()) || all(isfinite(t)).item<bool>(),
             "{}: its weights {} are not finite", path, name);
}

/// The source with the same check of all that is read.
inline TensorSource finite_weights(const std::string& path, const TensorSource& source) {
  const auto checked = [path](const std::string& name, Tensor t) {
    check_finite_weights(path, {{name, t}});
    return t;
  };
  return {source.tensors,
          [=, load = source.load](const std::string& name) { return checked(name, load(name)); },
          [=, load = source.load_rows](const std::string& name, int64_t begin, int64_t end) {
            return checked(name, load(name, begin, end));
          }};
}

/// The model of make() with the weights of the file. IoError if they do not fit the configuration
/// or are not finite.
template <class Make>
auto load_weights(const std::string& path, const std::string& config_path, Make make) {
  SafeTensors weights = load_safetensors(path);
  check_finite_weights(path, weights.tensors);
  try {
    // Without memory: initializing the weights first would take twice as much.
    auto model = [&] {
      const ShapeOnlyScope shapes;
      return make();
    }();
    nn::load_state_dict(model, weights.tensors, {.take = true});
    return model;
  } catch (const Error& e) {
    fail_io(fmt::format("{}: not the weights that {} describes: {}", path, config_path, e.what()));
  }
}

/// IoError, which names the file of weights, unless a value computed with them is finite. Finite
/// weights can be so large that sums overflow.
inline void check_finite_result(const std::string& path, std::string_view what, double value) {
  check_io(std::isfinite(value), "{}: the {} is {}: its weights are too large, sums overflow", path,
           what, value);
}

}  // namespace tern::apps
