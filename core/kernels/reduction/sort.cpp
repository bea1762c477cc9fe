// Sorts lines, fully or only a part, and finds the largest or smallest of each line.
#include "tern/core/kernels/reduction/sort.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tern/core/base/threads.h"

namespace tern::kernels {
namespace {

constexpr int64_t kSortGrain = 4096;  // elements per thread, at least

template <class T>
struct Entry {
  T value;
  int64_t at;
};

template <class T>
bool is_nan(T v) {
  return v != v;
}

template <class T>
bool below(T a, T b) {
  return a < b || (is_nan(b) && !is_nan(a));
}

// A total order, by value and then by position. It makes any sorting algorithm stable.
template <bool kDescending, class T>
bool before(const Entry<T>& a, const Entry<T>& b) {
  bool ab = kDescending ? below(b.value, a.value) : below(a.value, b.value);
  bool ba = kDescending ? below(a.value, b.value) : below(b.value, a.value);
  return ab || (!ba && a.at < b.at);
}

// Puts the elements of the part where they belong in the sorted line.
template <class T>
void order(std::vector<Entry<T>>& line, SortedPart part, bool descending) {
  const auto first = line.begin() + part.first, last = line.begin() + part.last;
  auto run = [&](auto before) {
    if (first == last) return;
    if (first != line.begin()) {
      std::nth_element(line.begin(), first, line.end(), before);
      if (last - first == 1) return;
    }
    if (last == line.end()) return std::sort(first, last, before);
    constexpr int64_t kFew = 16;  // for a share this small a heap is faster
    if (part.last - part.first <= std::ssize(line) / kFew)
      return std::partial_sort(first, last, line.end(), before);
    std::nth_element(first, last - 1, line.end(), before);
    std::sort(first, last, before);
  };
  if (descending)
    run([](const Entry<T>& a, const Entry<T>& b) { return before<true>(a, b); });
  else
    run([](const Entry<T>& a, const Entry<T>& b) { return before<false>(a, b); });
}

// NaN beats everything except NaN.
template <bool kGreatest, class T>
bool beats(T a, T b) {
  return (kGreatest ? a > b : a < b) || (is_nan(a) && !is_nan(b));
}

// The number of neighbouring lines that are processed together, in memory order.
constexpr int64_t kLines = 64;

template <bool kGreatest, class T>
void extremes(const Loops& lines, int64_t size, int64_t stride, const T* from, int64_t* to) {
  const int64_t fs = lines.inner_stride(0), ts = lines.inner_stride(1);
  const int64_t block = std::abs(stride) < std::abs(fs) ? 1 : kLines;
  parallel_for(lines.numel, kSortGrain / size + 1, [&](int64_t first, int64_t last) {
    for_each_run(lines, first, last, [&](const Offsets& at, int64_t count) {
      for (int64_t start = 0; start < count; start += block) {
        const int64_t n = std::min(block, count - start);
        const T* f = from + at[0] + start * fs;
        T best[kLines];
        int64_t where[kLines];
        for (int64_t i = 0; i < n; ++i) best[i] = f[i * fs], where[i] = 0;
        for (int64_t k = 1; k < size; ++k)
          for (int64_t i = 0; i < n; ++i) {
            T v = f[k * stride + i * fs];
            if (!beats<kGreatest>(v, best[i])) continue;
            best[i] = v;
            where[i] = k;
          }
        for (int64_t i = 0; i < n; ++i) to[at[1] + (start + i) * ts] = where[i];
      }
    });
  });
}

}  // namespace

void sort(DType type, const Loops& lines, const SortAxis& axis, SortedPart part, bool descending,
          const void* from, void* values, int64_t* indices) {
  dispatch(type, [&]<class T>() {
    parallel_for(lines.numel, kSortGrain / (axis.size + 1) + 1, [&](int64_t first, int64_t last) {
      std::vector<Entry<T>> line(static_cast<size_t>(axis.size));
      for_each_run(lines, first, last, [&](const Offsets& at, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const T* f = static_cast<const T*>(from) + at[0] + i * lines.inner_stride(0);
          T* v = static_cast<T*>(values) + at[1] + i * lines.inner_stride(1);
          int64_t* x = indices + at[2] + i * lines.inner_stride(2);
          for (int64_t k = 0; k < axis.size; ++k)
            line[static_cast<size_t>(k)] = {f[k * axis.from_stride], k};
          order(line, part, descending);
          for (int64_t k = part.first; k < part.last; ++k) {
            *v = line[static_cast<size_t>(k)].value;
            *x = line[static_cast<size_t>(k)].at;
            v += axis.values_stride, x += axis.indices_stride;
          }
        }
      });
    });
  });
}

void arg_extreme(DType type, const Loops& lines, int64_t size, int64_t stride, bool greatest,
                 const void* from, int64_t* to) {
  dispatch(type, [&]<class T>() {
    const T* f = static_cast<const T*>(from);
    if (greatest)
      extremes<true>(lines, size, stride, f, to);
    else
      extremes<false>(lines, size, stride, f, to);
  });
}

}  // namespace tern::kernels
