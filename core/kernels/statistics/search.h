// Binary search in sorted lines, and grouping of equal rows, in contiguous memory.
// Inside of core only.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::kernels {

/// to[i] = the number of elements in the sorted line of values[i] that are less than it (if
/// `right`: not greater). values are `lines` rows of m. Each row has its own line of n elements in
/// `sorted`, or all rows share the first line (one_line).
template <class T>
void searchsorted(const T* sorted, const T* values, int64_t* to, int64_t lines, int64_t n,
                  int64_t m, bool one_line, bool right);

/// Groups of equal rows of x (n, m), in lexicographic order.
struct Groups {
  std::vector<int64_t> first;     ///< first row of each group
  std::vector<int64_t> counts;    ///< number of rows in each group
  std::vector<int64_t> group_of;  ///< the group of each row
};
template <class T>
Groups equal_rows(const T* x, int64_t n, int64_t m);

/// counts[b] = the sum of weight (1 if null) over the x in bin b: edges[b] <= x < edges[b + 1]. The
/// last bin includes its upper edge.
template <class T>
void histogram(const T* x, const T* weight, int64_t n, const T* edges, int64_t bins, T* counts);

}  // namespace tern::kernels
