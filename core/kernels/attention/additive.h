// Scores of additive attention and their gradients, without the hidden layer in memory.
// Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// B batches of Q queries and S keys with H hidden units, all contiguous.
struct AdditiveSize {
  int64_t batch, queries, keys, hidden;
};

/// scores[b,i,j] = sum_h w[h] tanh(q[b,i,h] + k[b,j,h])
template <class T>
void additive_scores(const AdditiveSize& size, const T* q, const T* k, const T* w, T* scores);

/// With t = tanh(q + k) and d[b,i,j,h] = ds[b,i,j] w[h] (1 - t^2):
/// dq[b,i] = sum_j d,  dk[b,j] += sum_i d,  dw = sum_bij ds t.
template <class T>
void additive_gradients(const AdditiveSize& size, const T* q, const T* k, const T* w, const T* ds,
                        T* dq, T* dk, T* dw);

}  // namespace tern::kernels
