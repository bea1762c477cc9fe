// Shared by the cross entropies of logits and of a linear layer. Inside of core only.
#pragma once

#include "tern/core/kernels/losses/cross_entropy.h"
#include "tern/core/ops/ops.h"

namespace tern::detail {

/// The targets of rows of logits. None of these members has a gradient here.
struct RowTargets {
  Tensor index;          // (rows) i64, or
  Tensor probabilities;  // (rows, C)
  Tensor weight;         // (C)
  double smoothing;
  int64_t ignore;

  template <class T>
  kernels::Targets<T> raw() const {
    return {index.defined() ? index.data<int64_t>() : nullptr,
            index.defined() ? nullptr : probabilities.data<T>(), weight.data<T>(), smoothing,
            ignore};
  }

  /// q (rows, C) of kernels/losses/cross_entropy.h.
  Tensor weights() const;
};

/// The class weights in this dtype; ones if none are given.
Tensor class_weights(const char* op, const Tensor& weight, int64_t classes, DType dtype);

/// i64 targets as (rows). Error if one is neither a class nor `ignore`.
Tensor class_indices(const char* op, const Tensor& target, int64_t classes, int64_t ignore);

/// Error unless the value lies in [0, 1].
void check_label_smoothing(const char* op, double smoothing);

/// The sum of the target classes' weights.
double total_weight(const Tensor& index, const Tensor& weight, int64_t ignore);

/// Reduces to the sum or the mean (over `weight`; 0 if that is 0), or returns the losses in
/// `shape`.
Tensor reduce_rows(const Tensor& losses, Reduction reduction, double weight, const Shape& shape);

}  // namespace tern::detail
