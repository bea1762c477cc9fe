// A sparse linear map along one axis as an op, whose backward pass applies the transposed map; and
// the map of adaptive mean pooling.
#include "tern/core/ops/convolution/axis_map.h"

#include <memory>

#include "tern/core/ops/composed_scope.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern::detail {
namespace {

// (in, out): a row times this matrix is the mapped row.
Tensor matrix_of(const kernels::AxisMap& map, DType dtype) {
  const int64_t out = map.out();
  std::vector<double> matrix(static_cast<size_t>(map.in * out));
  for (int64_t i = 0; i < out; ++i)
    for (int64_t k = map.starts[i]; k < map.starts[i + 1]; ++k)
      matrix[map.index[k] * out + i] += map.weight[k];
  return tensor(matrix, {map.in, out}).to(dtype);
}

}  // namespace

Tensor map_axis(const char* name, const Tensor& x, int axis, int64_t out,
                const std::function<kernels::AxisMap()>& make) {
  Op op(name, x);
  Shape shape = x.shape();
  shape[axis] = out;
  if (x.numel() == 0) return reshape(x, shape);
  if (out == 0) return narrow(x, axis, 0, 0);
  if (composing())
    return transpose(matmul(transpose(x, axis, -1), matrix_of(make(), x.dtype())), axis, -1);
  Fresh y(shape, x.dtype());
  Tensor from = x.detach().contiguous();
  auto map = std::make_shared<const kernels::AxisMap>(make());
  int64_t outer = 1, inner = 1;
  for (int a = 0; a < axis; ++a) outer *= shape[a];
  for (int a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
  dispatch_float(x.dtype(), name, [&]<class T>() {
    kernels::map_axis(*map, outer, inner, from.data<T>(), y.data<T>());
  });
  return op.record(y, [name, axis, map](const Tensor& dy) {
    return map_axis(name, dy, axis, map->in, [&] { return map->transposed(); });
  });
}

kernels::AxisMap adaptive_mean(int64_t in, int64_t out) {
  kernels::AxisMap map;
  map.in = in;
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * in / out, end = ((i + 1) * in - 1) / out + 1;
    for (int64_t j = begin; j < end; ++j) map.add(j, 1 / static_cast<double>(end - begin));
    map.next();
  }
  return map;
}

}  // namespace tern::detail
