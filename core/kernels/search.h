// Binary search in ordered lines, and rows that are equal. Memory without gaps. Inside of core
// only.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::kernels {

/// to[i] = how many elements of the line of values[i] are less (right: not greater). Values come in
/// `lines` rows of m, each with its own line of n in `sorted`, or (one_line) all with the first.
template <class T>
void searchsorted(const T* sorted, const T* values, int64_t* to, int64_t lines, int64_t n,
                  int64_t m, bool one_line, bool right);

/// Rows of x (n, m) that are equal: groups in lexicographic order of the rows.
struct Groups {
  std::vector<int64_t> first;     ///< the first row of each group
  std::vector<int64_t> counts;    ///< rows of each group
  std::vector<int64_t> group_of;  ///< of each row
};
template <class T>
Groups equal_rows(const T* x, int64_t n, int64_t m);

/// counts[bin] += weight (1 if null) for the bin that each x lies in: edges[b] <= x < edges[b + 1],
/// the last with its upper edge.
template <class T>
void histogram(const T* x, const T* weight, int64_t n, const T* edges, int64_t bins, T* counts);

}  // namespace tern::kernels
