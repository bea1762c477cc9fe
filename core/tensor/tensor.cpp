// Errors of undefined tensors, wrong element types and item(). The ops are in core/ops; the members
// that belong to the tape are in core/tape/leaf.cpp.
#include "tern/core/tensor/tensor.h"

#include <cmath>

namespace tern {

void Tensor::fail_undefined() {
  fail(
      "tensor: this tensor is undefined (default-constructed, or moved from); assign it a value "
      "first");
}

void Tensor::check_type(DType wanted) const {
  check(dtype() == wanted, "data: the tensor is {}, but {} was asked for; convert with .to()",
        dtype(), wanted);
}

void Tensor::check_contiguous(const char* member) const {
  check(is_contiguous(),
        "{}: the tensor of shape {} with strides {} is not contiguous; call contiguous() first, or "
        "use data() with the strides",
        member, shape(), strides());
}

void Tensor::check_item(double value, double least, double end) {
  check(std::trunc(value) >= least && value < end,
        "item: {} does not fit the integer type, which holds {} to {}; ask for item<double>() or "
        "item<int64_t>()",
        value, least, end - 1);
}

void Tensor::check_one_element() const {
  check(numel() == 1, "item: needs exactly one element, the shape is {}", shape());
}

}  // namespace tern
