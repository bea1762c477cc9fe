// Cross entropy of contiguous rows of logits x (rows, classes), softmax included. With the targets'
// weights q_c (below), p = softmax(x) and Q = sum_c q_c:
//   loss = -sum_c q_c log p_c,   dx_c = dloss (Q p_c - q_c). Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// q_c = weight_c ((1 - smoothing) t_c + smoothing / classes). t is one class (`index`, one per
/// row) or the row's probabilities. Rows whose index is `ignore` have q = 0.
template <class T>
struct Targets {
  const int64_t* index = nullptr;
  const T* probability = nullptr;  ///< (rows, classes), if index is null
  const T* weight = nullptr;       ///< (classes)
  double smoothing = 0;
  int64_t ignore = -100;
};

/// loss (rows). max and sum (rows) are for the gradient: p_c = exp(x_c - max) / sum.
template <class T>
void cross_entropy(const T* x, const Targets<T>& targets, T* loss, T* max, T* sum, int64_t rows,
                   int64_t classes);

template <class T>
void cross_entropy_backward(const T* dloss, const T* x, const Targets<T>& targets, const T* max,
                            const T* sum, T* dx, int64_t rows, int64_t classes);

/// The first row whose index is neither `ignore` nor in [0, classes); -1 if none.
int64_t first_outside(const int64_t* index, int64_t rows, int64_t classes, int64_t ignore);

/// The sum of weight[index] over the rows that are not ignored.
template <class T>
double weight_of(const int64_t* index, const T* weight, int64_t rows, int64_t ignore);

}  // namespace tern::kernels
