// Tensors on foreign memory: the checks of its address and layout.
#include <cstddef>

#include "tern/core/tensor/tensor.h"

namespace tern {
namespace {

constexpr const char* kName = "Tensor::wrap";

/// The layout of the elements from the one at index 0, 0, ... (offset 0).
Layout layout_of(const Shape& shape, const std::optional<Strides>& strides) {
  Layout l = Layout::contiguous(shape);
  if (!strides) return l;
  check(strides->size() == shape.size(), "{}: {} strides were given for the shape {}", kName,
        strides->size(), shape);
  for (int a = 0; a < shape.size(); ++a)
    if (shape[a] > 1) l.strides[a] = (*strides)[a];
  return l.numel() ? l : Layout::contiguous(shape);
}

/// The elements that the layout reaches before the one at index 0, 0, ..., and from there on.
struct Reach {
  int64_t before = 0, after = 1;
};

Reach reach_of(const Layout& l) {
  Reach r;
  if (l.numel() == 0) return {0, 0};
  for (int a = 0; a < l.ndim(); ++a) {
    const int64_t far = checked_product(kName, l.shape[a] - 1, l.strides[a]);
    if (far < 0)
      r.before = checked_sum(kName, r.before, checked_product(kName, far, -1));
    else
      r.after = checked_sum(kName, r.after, far);
  }
  return r;
}

}  // namespace

Tensor Tensor::wrap_memory(void* data, bool read_only, const Shape& shape, DType dtype,
                           WrapOptions options) {
  Layout l = layout_of(shape, options.strides);
  const Reach reach = reach_of(l);
  const int64_t item = item_size(dtype);
  const auto bytes = static_cast<uintptr_t>(
      checked_product(kName, checked_sum(kName, reach.before, reach.after), item));
  const auto address = reinterpret_cast<uintptr_t>(data);
  const auto before = static_cast<uintptr_t>(reach.before * item);
  check(data || bytes == 0, "{}: the pointer is null, but the shape {} has elements", kName, shape);
  check(
      address % static_cast<uintptr_t>(item) == 0,
      "{}: the address {:#x} is no multiple of {}, the size of a {}; copy the elements to an array "
      "of that type",
      kName, address, item, dtype);
  check(before <= address && bytes <= UINTPTR_MAX - (address - before),
        "{}: the shape {} with strides {} leaves the address space at {:#x}", kName, shape,
        l.strides, address);
  alignas(double) static std::byte nothing;  // an address for tensors without elements
  l.offset = reach.before;
  auto* lowest = data ? static_cast<std::byte*>(data) - before : &nothing;
  detail::Ref<detail::Storage> storage(
      new detail::Storage(lowest, bytes, read_only, std::move(options.owner)));
  return Tensor(detail::Ref<detail::TensorImpl>(new detail::TensorImpl(l, dtype, storage)));
}

}  // namespace tern
