// Inside of models only. Finds tensors in another program's state, whose shapes tell the model's
// sizes.
#pragma once

#include <algorithm>
#include <string>

#include "tern/core/base/error.h"
#include "tern/core/io/state.h"

namespace tern::models {

/// Finds tensors by name. Errors begin with `model` ("vit") and ask whether it is `origin`
/// ("timm's VisionTransformer").
struct StateShapes {
  const NamedTensors& state;
  const char* model;
  const char* origin;

  /// The tensor with this name; undefined if there is none.
  Tensor find(const std::string& name) const {
    auto it =
        std::find_if(state.begin(), state.end(), [&](const auto& t) { return t.first == name; });
    return it == state.end() ? Tensor() : it->second;
  }
  /// The same; IoError if it is empty or has another number of axes.
  Tensor find(const std::string& name, int axes) const {
    Tensor t = find(name);
    check_io(!t.defined() || (t.ndim() == axes && t.numel() > 0),
             "{}: {} has {} axes in {}, not the shape {}", model, name, axes, origin,
             t.defined() ? t.shape() : Shape{});
    return t;
  }
  /// The same; IoError if there is none.
  Tensor need(const std::string& name, int axes) const {
    Tensor t = find(name, axes);
    check_io(t.defined(), "{}: the state has no {}; does it come from {}?", model, name, origin);
    return t;
  }
};

}  // namespace tern::models
