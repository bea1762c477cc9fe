// Linear recurrences along the middle axis of contiguous operands (outer, n, inner), and their
// gradients. Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

struct ScanShape {
  int64_t outer, n, inner;
  bool reverse;  ///< runs from the last step to the first
};

/// h_t = a_t h_{t-1} + b_t. `initial` (outer, inner) is h before the first step; null: zeros.
template <class T>
void linear_scan(const ScanShape& shape, const T* a, const T* b, const T* initial, T* h);

template <class T>
struct ScanGradients {
  const T *a, *h, *initial, *dh;  ///< initial: null means zeros
  T *da, *db, *dinitial;          ///< db may be dh; dinitial may be null
};

/// db_t = dh_t + a_{t+1} db_{t+1},  da_t = db_t h_{t-1},  dinitial = a_first db_first.
template <class T>
void linear_scan_gradients(const ScanShape& shape, const ScanGradients<T>& x);

}  // namespace tern::kernels
