// The forward step of a Neural Turing Machine's memory for a row of the batch: addressing of each
// head, then writing, then reading.
#include "tern/core/kernels/recurrent/ntm.h"

#include "tern/core/kernels/recurrent/ntm_row.h"

namespace tern::kernels {
namespace ntm {
namespace {

template <class T>
void forward_row(const NtmSize& s, const T* heads, const T* state, T* next, T* scratch) {
  const int64_t n = s.slots;
  const T *memory = state + s.memory_at(), *old = state + s.weights_at();
  T *new_memory = next + s.memory_at(), *weights = next + s.weights_at(), *norms = scratch;
  const HeadTrace<T> t = trace_at(s, scratch + n);
  column_norms<T>(memory, norms, s.width, n);
  for (int64_t h = 0; h < s.heads(); ++h) {
    const T* p = heads + s.head(h);
    T* w = weights + h * n;
    trace_head<T>(s, p, memory, norms, old + h * n, t);
    if (s.sharpening) {
      // shifted^gamma / sum, by logarithms
      simd([=, gamma = numbers_of(s, p).gamma, log = t.log] {
        scaled_softmax<T>(gamma, log, w, n);
      });
    } else {
      std::copy_n(t.shifted, n, w);
    }
  }
  if (s.writes == 0) std::copy_n(memory, s.width * n, new_memory);
  for (int64_t h = 0; h < s.writes; ++h)
    write_memory<T>(s, heads + s.head(h) + s.address(), weights + h * n,
                    h == 0 ? memory : new_memory, new_memory);
  for (int64_t r = 0; r < s.reads; ++r)
    simd([=, m = s.width, w = weights + (s.writes + r) * n] {
      multiply_rows<T>(new_memory, w, next + r * m, m, n);
    });
}

}  // namespace
}  // namespace ntm

template <class T>
void ntm_forward(const NtmSize& s, const T* heads, const T* state, T* next) {
  ntm::for_each_row<T>(s, s.slots + ntm::trace_size<T>(s), [&](int64_t row, T* scratch) {
    ntm::forward_row(s, heads + row * s.parameters(), state + row * s.state(),
                     next + row * s.state(), scratch);
  });
}

template void ntm_forward(const NtmSize&, const float*, const float*, float*);
template void ntm_forward(const NtmSize&, const double*, const double*, double*);

}  // namespace tern::kernels
