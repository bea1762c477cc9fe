// What cross entropies of logits and of a linear layer share. Inside of core only.
#pragma once

#include "tern/core/kernels/cross_entropy.h"
#include "tern/core/ops/ops.h"

namespace tern::detail {

/// What rows of logits are compared with. None has a gradient here.
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

  /// q (rows, C) of kernels/cross_entropy.h.
  Tensor weights() const;
};

/// The weights of the classes as they are to be; 1 where none are given.
Tensor class_weights(const char* op, const Tensor& weight, int64_t classes, DType dtype);

/// i64 targets as (rows); an Error if one is neither a class nor `ignore`.
Tensor class_indices(const char* op, const Tensor& target, int64_t classes, int64_t ignore);

/// An Error unless it lies in [0, 1].
void check_label_smoothing(const char* op, double smoothing);

/// The sum of the weights of the classes that are targets.
double total_weight(const Tensor& index, const Tensor& weight, int64_t ignore);

/// Sums, means (by the weight of what counts; 0 if nothing does) or the losses by themselves.
Tensor reduce_rows(const Tensor& losses, Reduction reduction, double weight, const Shape& shape);

}  // namespace tern::detail
