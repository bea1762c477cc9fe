// How 3 x 3 convolutions are computed.
#pragma once

#include "tern/core/base/restored.h"

namespace tern {

/// The method for f32 convolutions with 3 x 3 kernels, stride 1, no dilation and no groups. All
/// other convolutions are direct.
enum class ConvMethod : int {
  /// Winograd's minimal filtering where that is faster: from 32 channels on, in bf16 from 64. It
  /// computes squares of 2 x 2 outputs from squares of 4 x 4 inputs, with 16 multiplications per
  /// channel in place of 36. Rounding errors are at most three times those of `direct`. In bf16 it
  /// rounds the input and then what it transforms, and does not make outputs below 1.2e-38 zero. As
  /// in `direct`, a NaN reaches the outputs whose windows hold it. An infinity may become a NaN in
  /// those outputs.
  winograd = 0,
  /// Every output is one sum over its window.
  direct = 1,
};

/// The method of this thread: winograd unless a scope sets another. An op's gradient uses the
/// method of the op.
ConvMethod conv_method();

/// Sets the method of this thread while in scope.
class ConvMethodScope {
 public:
  [[nodiscard]] explicit ConvMethodScope(ConvMethod method);
  ~ConvMethodScope();

 private:
  detail::Restored<ConvMethod> method_;
};

}  // namespace tern
