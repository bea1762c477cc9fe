// Binary search, grouping of equal rows by a stable sort, and histograms.
#include "tern/core/kernels/statistics/search.h"

#include <algorithm>
#include <numeric>

#include "tern/core/base/threads.h"

namespace tern::kernels {
namespace {

constexpr int64_t kSearchGrain = 1024;  // searches per thread, at least

template <class T>
bool less(T a, T b) {
  return a < b || (b != b && a == a);  // NaN sorts last
}

}  // namespace

template <class T>
void searchsorted(const T* sorted, const T* values, int64_t* to, int64_t lines, int64_t n,
                  int64_t m, bool one_line, bool right) {
  parallel_for(lines * m, kSearchGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* line = sorted + (one_line ? 0 : i / m * n);
      const T value = values[i];
      auto before = [=](T element) { return right ? !less(value, element) : less(element, value); };
      to[i] = std::partition_point(line, line + n, before) - line;
    }
  });
}

template <class T>
Groups equal_rows(const T* x, int64_t n, int64_t m) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [=](int64_t a, int64_t b) {
    return std::lexicographical_compare(x + a * m, x + (a + 1) * m, x + b * m, x + (b + 1) * m,
                                        less<T>);
  });
  Groups groups;
  groups.group_of.resize(static_cast<size_t>(n));
  const int64_t* last = nullptr;
  for (const int64_t& row : order) {
    if (!last || !std::equal(x + row * m, x + (row + 1) * m, x + *last * m)) {
      groups.first.push_back(row);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.group_of[static_cast<size_t>(row)] = static_cast<int64_t>(groups.first.size()) - 1;
    last = &row;
  }
  return groups;
}

template <class T>
void histogram(const T* x, const T* weight, int64_t n, const T* edges, int64_t bins, T* counts) {
  std::vector<double> sums(static_cast<size_t>(bins));  // f32 stops counting at 2^24
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= edges[0] && x[i] <= edges[bins])) continue;
    const int64_t at = std::upper_bound(edges, edges + bins, x[i]) - edges - 1;
    sums[static_cast<size_t>(at)] += weight ? weight[i] : 1;
  }
  for (int64_t b = 0; b < bins; ++b) counts[b] = static_cast<T>(sums[static_cast<size_t>(b)]);
}

template void searchsorted(const float*, const float*, int64_t*, int64_t, int64_t, int64_t, bool,
                           bool);
template void searchsorted(const double*, const double*, int64_t*, int64_t, int64_t, int64_t, bool,
                           bool);
template void searchsorted(const int64_t*, const int64_t*, int64_t*, int64_t, int64_t, int64_t,
                           bool, bool);
template void searchsorted(const uint8_t*, const uint8_t*, int64_t*, int64_t, int64_t, int64_t,
                           bool, bool);
template Groups equal_rows(const float*, int64_t, int64_t);
template Groups equal_rows(const double*, int64_t, int64_t);
template Groups equal_rows(const int64_t*, int64_t, int64_t);
template Groups equal_rows(const uint8_t*, int64_t, int64_t);
template void histogram(const float*, const float*, int64_t, const float*, int64_t, float*);
template void histogram(const double*, const double*, int64_t, const double*, int64_t, double*);

}  // namespace tern::kernels
