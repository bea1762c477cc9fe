// One pass over memory with several results: out0[i], out1[i], ... = op(in0[i], in1[i], ...) for up
// to kMaxMany results and kMaxMany + 1 operands (the extra one for a gradient). The op is compiled
// for contiguous blocks. Operands that are strided, broadcast or of another type are packed into
// small buffers, block by block, each by its own loops. Results are contiguous.
#pragma once

#include <array>
#include <span>
#include <type_traits>
#include <utility>

#include "tern/core/base/layout.h"
#include "tern/core/base/simd.h"
#include "tern/core/kernels/elementwise/elementwise.h"

namespace tern::kernels {

constexpr size_t kMaxMany = 8;

/// An operand in memory, broadcast to the results' shape. `data` includes its offset.
struct ManyInput {
  Input in;
  Layout layout;
};

namespace detail {

/// Computes n elements of every result. All operands are contiguous and of one type.
using ManyBlock = void (*)(const void* op, void* const* out, const void* const* in, int64_t n);

struct ManyPass {
  const Shape& shape;
  DType type;                  ///< of the results and of the computation
  std::span<void* const> out;  ///< null results are not wanted
  std::span<const ManyInput> in;
  ManyBlock block;
  const void* op;
};
void run(const ManyPass& pass);

/// Computes element i. A separate function, since g++ does not vectorise a loop that contains an
/// array.
template <class T, size_t kOut, size_t kIn, class Op, size_t... J, size_t... K>
[[gnu::always_inline]] inline void compute_one(const Op& op, const std::array<T*, kOut>& out,
                                               const std::array<const T*, kIn>& in, int64_t i,
                                               std::index_sequence<J...>,
                                               std::index_sequence<K...>) {
  const std::array<T, kOut> y = op(in[K][i]...);
  ((out[J][i] = y[J]), ...);
}

template <class T, size_t kOut, size_t kIn, class Op>
void compute_many(const Op& op, const std::array<T*, kOut>& out,
                  const std::array<const T*, kIn>& in, int64_t n) {
  simd([=] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      compute_one(op, out, in, i, std::make_index_sequence<kOut>(),
                  std::make_index_sequence<kIn>());
  });
}

}  // namespace detail

/// T is float or double; op(T...) returns a std::array<T, kOut>. Null results are not written. A
/// result may be an input if that is of type T and contiguous.
template <class T, size_t kOut, size_t kIn, class Op>
void elementwise_many(const Shape& shape, const std::array<T*, kOut>& out,
                      const std::array<ManyInput, kIn>& in, const Op& op) {
  static_assert(kOut <= kMaxMany && kIn <= kMaxMany + 1);
  std::array<void*, kOut> outs;
  for (size_t j = 0; j < kOut; ++j) outs[j] = out[j];
  auto block = [](const void* f, void* const* o, const void* const* p, int64_t n) {
    std::array<T*, kOut> results;
    std::array<const T*, kIn> operands;
    for (size_t j = 0; j < kOut; ++j) results[j] = static_cast<T*>(o[j]);
    for (size_t k = 0; k < kIn; ++k) operands[k] = static_cast<const T*>(p[k]);
    detail::compute_many(*static_cast<const Op*>(f), results, operands, n);
  };
  detail::run({shape, dtype_of<T>, outs, in, block, &op});
}

}  // namespace tern::kernels
