// Sorts lines, fully or only a part, and finds the largest or smallest of each line.
#include "tern/core/kernels/reduction/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "tern/core/base/threads.h"

namespace tern::kernels {
namespace {

constexpr int64_t kSortGrain = 4096;  // elements per thread, at least

// Unsigned numbers in the order of the values: 0 and -0 are equal, NaN is the greatest.
template <class T>
auto key_of(T value, bool descending) {
  using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr Key kTop = Key{1} << (8 * sizeof(Key) - 1);
  Key key;
  if constexpr (std::is_floating_point_v<T>) {
    const Key bits = std::bit_cast<Key>(value + T(0));  // -0 + 0 is 0
    key = value != value ? ~Key{0} : bits & kTop ? ~bits : bits | kTop;
  } else {
    key = std::is_signed_v<T> ? static_cast<Key>(value) ^ kTop : static_cast<Key>(value);
  }
  return descending ? ~key : key;
}

// An element of a line is one Word: its key in the upper half, its place in the lower one. No two
// are equal, and equal values are in order of their places: any algorithm sorts them stably.
template <class Word>
constexpr int kPlaceBits = 4 * sizeof(Word);

// Sorts by the keys, a byte at a time from the lowest one, into `line`. Skips a byte that is the
// same in all keys.
template <class Word>
void sort_bytes(std::vector<Word>& line, std::vector<Word>& other) {
  constexpr int kBytes = sizeof(Word) / 2;
  const auto byte = [](Word w, int b) {
    return static_cast<uint8_t>(w >> (kPlaceBits<Word> + 8 * b));
  };
  std::array<std::array<size_t, 256>, kBytes> counts{};
  for (Word w : line)
    for (int b = 0; b < kBytes; ++b) ++counts[b][byte(w, b)];
  other.resize(line.size());
  for (int b = 0; b < kBytes; ++b) {
    if (counts[b][byte(line[0], b)] == line.size()) continue;
    size_t start = 0;
    for (size_t& n : counts[b]) start += std::exchange(n, start);
    for (Word w : line) other[counts[b][byte(w, b)]++] = w;
    line.swap(other);
  }
}

// Puts the elements of the part where they belong in the sorted line.
template <class Word>
void order(std::vector<Word>& line, std::vector<Word>& other, SortedPart part) {
  constexpr int64_t kFew = 16;  // for a share this small it is faster to look for its elements
  constexpr int64_t kShort = sizeof(Word) == 8 ? 64 : 256;  // comparing is faster up to this length
  const auto first = line.begin() + part.first, last = line.begin() + part.last;
  const int64_t size = std::ssize(line), count = part.last - part.first;
  if (count == 0) return;
  if (count > size / kFew && size > kShort) return sort_bytes(line, other);
  if (part.first > 0) std::nth_element(line.begin(), first, line.end());
  if (part.first > 0 && count == 1) return;
  if (part.last == size) return std::sort(first, last);
  std::partial_sort(first, last, line.end());
}

// NaN beats everything except NaN.
template <bool kGreatest, class T>
bool beats(T a, T b) {
  return (kGreatest ? a > b : a < b) || (a != a && b == b);
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

template <class T, class Word>
void sort_lines(const Loops& lines, const SortAxis& axis, SortedPart part, bool descending,
                const T* from, T* values, int64_t* indices) {
  parallel_for(lines.numel, kSortGrain / (axis.size + 1) + 1, [&](int64_t first, int64_t last) {
    std::vector<Word> line(static_cast<size_t>(axis.size)), other;
    for_each_run(lines, first, last, [&](const Offsets& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const T* f = from + at[0] + i * lines.inner_stride(0);
        T* v = values + at[1] + i * lines.inner_stride(1);
        int64_t* x = indices + at[2] + i * lines.inner_stride(2);
        for (int64_t k = 0; k < axis.size; ++k)
          line[static_cast<size_t>(k)] = Word{key_of(f[k * axis.from_stride], descending)}
                                             << kPlaceBits<Word> |
                                         static_cast<Word>(k);
        order(line, other, part);
        for (int64_t k = part.first; k < part.last; ++k) {
          const Word place = line[static_cast<size_t>(k)] << kPlaceBits<Word> >> kPlaceBits<Word>;
          *x = static_cast<int64_t>(place);
          *v = f[*x * axis.from_stride];
          v += axis.values_stride, x += axis.indices_stride;
        }
      }
    });
  });
}

}  // namespace

void sort(DType type, const Loops& lines, const SortAxis& axis, SortedPart part, bool descending,
          const void* from, void* values, int64_t* indices) {
  dispatch(type, [&]<class T>() {
    if (sizeof(T) == 8 || axis.size > std::numeric_limits<uint32_t>::max())
      sort_lines<T, unsigned __int128>(lines, axis, part, descending, static_cast<const T*>(from),
                                       static_cast<T*>(values), indices);
    else
      sort_lines<T, uint64_t>(lines, axis, part, descending, static_cast<const T*>(from),
                              static_cast<T*>(values), indices);
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
