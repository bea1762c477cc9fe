// One pass over memory: out[i] = op(in0[i], in1[i], ...) for operands of any layout.
//
// An op is compiled for one case only: contiguous blocks of the types it computes in (and, for
// floats, once per vector unit). For operands that are strided, broadcast or of another type, a
// driver that all ops share copies blocks into small buffers, which stay in the first cache. So
// strides cost a copy in cache, but no code.
#pragma once

#include <array>
#include <span>
#include <type_traits>

#include "tern/core/base/dtype.h"
#include "tern/core/base/simd.h"
#include "tern/core/kernels/loops.h"

namespace tern::kernels {

/// An operand in memory. It is converted if the op computes in another type.
struct Input {
  const void* data;
  DType type;
};

/// An op that is compiled for contiguous blocks.
struct ElementwiseOp {
  /// Computes n elements.
  using Block = void (*)(const void* op, void* out, const void* const* in, int64_t n);
  const void* op;  ///< for `block`; must outlive this
  Block block;
  DType out;
  std::span<const DType> in;  ///< the types that the block takes
};

namespace detail {

template <class R, class Op, class... Ins>
void compute(const Op& op, R* out, int64_t n, const Ins*... in) {
  if constexpr ((std::is_floating_point_v<Ins> || ...)) {
    simd([=] {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = op(in[i]...);
    });
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = op(in[i]...);
  }
}

template <class R, class... Ins, class Op, size_t... K>
void compute_block(const Op& op, void* out, const void* const* in, int64_t n,
                   std::index_sequence<K...>) {
  compute(op, static_cast<R*>(out), n, static_cast<const Ins*>(in[K])...);
}

}  // namespace detail

/// Compiles op(Ins...) -> R.
template <class R, class... Ins, class Op>
ElementwiseOp elementwise_op(const Op& op) {
  static constexpr std::array<DType, sizeof...(Ins)> kTypes = {dtype_of<Ins>...};
  auto block = [](const void* f, void* out, const void* const* in, int64_t n) {
    detail::compute_block<R, Ins...>(*static_cast<const Op*>(f), out, in, n,
                                     std::index_sequence_for<Ins...>());
  };
  return {&op, block, dtype_of<R>, kTypes};
}

/// out = op(in...) over the loops; operand 0 of the loops is the result, which has the op's type,
/// and 1, 2, ... are `in`. The result may be one of the inputs if both have the same layout and
/// type.
void elementwise(const Loops& loops, void* out, std::span<const Input> in, const ElementwiseOp& op);

}  // namespace tern::kernels
