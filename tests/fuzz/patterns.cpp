// Fuzzes the patterns of rearrange, repeat, reduce and einsum.
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/fuzz/fuzz.h"

// Two bytes choose the operands, the rest is the pattern.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  if (size < 2) return 0;
  const std::vector<Shape> shapes = {{2, 6, 3}, {6, 3}, {3}, {}, {2, 3, 4, 5}, {1, 6}, {0, 6}};
  const std::string_view pattern = fuzz::text_of(bytes + 2, size - 2);
  const Shape &a = shapes[bytes[0] % shapes.size()], &b = shapes[bytes[1] % shapes.size()];
  const AxisSizes sizes = {{"h", 2}, {"w", bytes[1] % 8}};
  // Computes only shapes: the pattern is tested, and it may ask for any size.
  const ShapeOnlyScope scope;
  const Tensor x = zeros(a), y = zeros(b);
  fuzz::may_refuse([&] { fuzz::require(rearrange(x, pattern).numel() == x.numel()); });
  fuzz::may_refuse([&] { return rearrange(x, pattern, sizes); });
  fuzz::may_refuse([&] { return repeat(x, pattern, sizes); });
  fuzz::may_refuse([&] { return reduce(x, pattern, ReduceOp::sum, sizes); });
  fuzz::may_refuse([&] { einsum_path(pattern, {a, b}); });
  fuzz::may_refuse([&] { return einsum(pattern, {x}); });
  fuzz::may_refuse([&] { return einsum(pattern, {x, y}); });
  return 0;
}
