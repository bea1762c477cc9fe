// How 3 x 3 convolutions are computed.
#pragma once

namespace tern {

/// For f32 convolutions with 3 x 3 kernels, stride 1, no dilation and no groups. All others are
/// direct.
enum class ConvMethod : int {
  /// By Winograd's minimal filtering where that is faster: from 32 channels on. Squares of 2 x 2
  /// outputs are computed from squares of 4 x 4 inputs, with 16 multiplications per channel in
  /// place of 36. Rounding errors are at most three times those of `direct`. A NaN reaches the
  /// outputs whose windows hold it, as there; an infinity may become a NaN in them.
  winograd = 0,
  /// Every output is one sum over its window.
  direct = 1,
};

/// The method of this thread: winograd unless a scope sets another. An op's gradient is computed as
/// the op was.
ConvMethod conv_method();

/// Sets the method of this thread while in scope.
class ConvMethodScope {
 public:
  explicit ConvMethodScope(ConvMethod method);
  ~ConvMethodScope();
  ConvMethodScope(const ConvMethodScope&) = delete;
  ConvMethodScope& operator=(const ConvMethodScope&) = delete;

 private:
  ConvMethod before_;
};

}  // namespace tern
