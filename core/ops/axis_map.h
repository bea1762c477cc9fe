// Linear maps along axes as ops. Inside of core only.
#pragma once

#include <functional>

#include "tern/core/kernels/axis_map.h"
#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// x with axis `axis`, which is not empty, turned into one of `out` elements. The map is made when
/// the memory for both is there, and not for a result without elements. The gradient is the
/// same op with the transposed map, to any order.
Tensor map_axis(const char* op, const Tensor& x, int axis, int64_t out,
                const std::function<kernels::AxisMap()>& make);

/// Window i is the mean of in[floor(i*n / m)] to in[ceil((i+1)*n / m)] - 1.
kernels::AxisMap adaptive_mean(int64_t in, int64_t out);

}  // namespace tern::detail
