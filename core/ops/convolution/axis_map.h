// Linear maps along axes as ops. Inside of core only.
#pragma once

#include <functional>

#include "tern/core/kernels/convolution/axis_map.h"
#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// Maps axis `axis` of x, which must not be empty, to `out` elements. Calls make() only once the
/// result has its memory, and not at all if x or the result has no elements. The gradient is the
/// same op with the transposed map, to any order.
Tensor map_axis(const char* op, const Tensor& x, int axis, int64_t out,
                const std::function<kernels::AxisMap()>& make);

/// Output i is the mean of in[floor(i*n / m)] to in[ceil((i+1)*n / m)] - 1.
kernels::AxisMap adaptive_mean(int64_t in, int64_t out);

}  // namespace tern::detail
