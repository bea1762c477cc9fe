// Convolutions with one input channel per group, computed directly.
// Inside of core only.
#pragma once

#include "tern/core/kernels/convolution/conv.h"

namespace tern::kernels {

template <class T>
void conv_depthwise(const Conv& c, const T* x, const T* w, const T* bias, T* y);
template <class T>
void input_grad_depthwise(const Conv& c, const T* dy, const T* w, T* dx);
template <class T>
void weight_grad_depthwise(const Conv& c, const T* x, const T* dy, T* dw);

}  // namespace tern::kernels
