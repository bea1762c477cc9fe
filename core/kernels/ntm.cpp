#include "tern/core/kernels/ntm.h"

#include "tern/core/base/simd.h"
#include "tern/core/kernels/ntm_row.h"

namespace tern::kernels {
namespace ntm {
namespace {

template <class T>
[[gnu::always_inline]] inline void forward_row(const NtmSize& s, const T* heads, const T* state,
                                               T* next, T* scratch) {
  const int64_t n = s.slots;
  const T *memory = state + s.memory_at(), *old = state + s.weights_at();
  T *new_memory = next + s.memory_at(), *weights = next + s.weights_at(), *norms = scratch;
  const HeadTrace<T> t = trace_at(s, scratch + n);
  column_norms<T>(memory, norms, s.width, n);
  for (int64_t h = 0; h < s.heads(); ++h) {
    trace_head<T>(s, heads + s.head(h), memory, norms, old + h * n, t);
    sharpen<T>(s, heads + s.head(h), t, weights + h * n);
  }
  if (s.writes == 0) std::copy_n(memory, s.width * n, new_memory);
  for (int64_t h = 0; h < s.writes; ++h)
    write_memory<T>(s, heads + s.head(h) + s.address(), weights + h * n,
                    h == 0 ? memory : new_memory, new_memory);
  for (int64_t r = 0; r < s.reads; ++r)
    for (int64_t j = 0; j < s.width; ++j)
      next[r * s.width + j] = dot<T>(weights + (s.writes + r) * n, new_memory + j * n, n);
}

}  // namespace
}  // namespace ntm

template <class T>
void ntm_forward(const NtmSize& s, const T* heads, const T* state, T* next) {
  ntm::for_each_row<T>(s, s.slots + ntm::trace_size<T>(s), [&](int64_t row, T* scratch) {
    const T *p = heads + row * s.parameters(), *old = state + row * s.state();
    T* to = next + row * s.state();
    simd([size = s, p, old, to, scratch] { ntm::forward_row(size, p, old, to, scratch); });
  });
}

template void ntm_forward(const NtmSize&, const float*, const float*, float*);
template void ntm_forward(const NtmSize&, const double*, const double*, double*);

}  // namespace tern::kernels
