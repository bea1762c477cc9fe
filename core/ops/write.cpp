#include "tern/core/ops/write.h"

#include <cstring>

#include "tern/core/kernels/copy.h"
#include "tern/core/ops/operands.h"

namespace tern::detail {

std::array<char, 8> element(Scalar value, DType type) {
  std::array<char, 8> bytes{};
  dispatch(type, [&]<class T>() {
    T v = value.is_integer ? kernels::convert<T>(value.integer) : kernels::convert<T>(value.value);
    std::memcpy(bytes.data(), &v, sizeof v);
  });
  return bytes;
}

void write(const char* op, const Fresh& to, const Tensor& from) {
  if (to.numel() == 0) return;
  kernels::Input in = input_of(from);
  char* out = static_cast<char*>(to.ref()->storage->data());
  kernels::copy(plan(op, to.layout(), {from}), out + to.layout().offset * item_size(to.dtype()),
                to.dtype(), in.data, in.type);
}

Fresh writable(const char* op, const Tensor& x) {
  for (int a = 0; a < x.ndim(); ++a)
    check(x.strides()[a] != 0 || x.shape()[a] <= 1 || x.numel() == 0,
          "{}: elements of the tensor of shape {} share memory (it is expanded along axis {}); "
          "write to a clone() instead",
          op, x.shape(), a);
  x.begin_write(op);
  return Fresh::adopt(x);
}

Tensor safe_source(const Tensor& to, const Tensor& from) {
  const Layout &t = to.layout(), &f = from.layout();
  if (to.ref()->storage != from.ref()->storage) return from;
  if (t.offset == f.offset && t.strides == f.strides && t.shape == f.shape) return from;
  Extent a = extent(t), b = extent(f);
  return a.last < b.first || b.last < a.first ? from : from.clone();
}

}  // namespace tern::detail
