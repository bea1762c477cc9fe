// Strided copies with conversion, in blocks of runs. If the two arrays are contiguous along
// different axes, the copy transposes tiles that fit the first cache.
#include "tern/core/kernels/creation/copy.h"

#include <optional>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/vectors.h"

namespace tern::kernels {
namespace {

template <class To, class From>
void copy_run(To* to, int64_t to_stride, const From* from, int64_t from_stride, int64_t n) {
  if (from_stride == 0) {
    To value = convert<To>(*from);
    if (to_stride == 1) {
      std::fill_n(to, n, value);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i * to_stride] = value;
    }
  } else if (to_stride == 1 && from_stride == 1) {
    if constexpr (std::is_same_v<To, From>) {
      copy_contiguous(to, from, n);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = convert<To>(from[i * from_stride]);
  }
}

template <class To, class From>
void copy_block(void* to_p, Steps ts, const void* from_p, Steps fs, int64_t rows, int64_t n) {
  To* to = static_cast<To*>(to_p);
  const From* from = static_cast<const From*>(from_p);
  if (n <= 0) return;
  const bool contiguous = std::is_same_v<To, From> && ts.element == 1 && fs.element == 1;
  for (int64_t r = 0; r < rows; ++r, to += ts.row, from += fs.row) {
    if (n >= kShortRow) {
      copy_run(to, ts.element, from, fs.element, n);
    } else if (contiguous) {
      if constexpr (std::is_same_v<To, From>) copy_short(to, from, n);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i * ts.element] = convert<To>(from[i * fs.element]);
    }
  }
}

/// Two axes: `to` is contiguous along one and `from` along the other.
struct Plane {
  int to_axis, from_axis;
};

std::optional<Plane> find_plane(const Loops& loops) {
  constexpr int64_t kWorthwhile = 4;
  int to_axis = -1, from_axis = -1;
  for (int a = 0; a < loops.sizes.size(); ++a) {
    if (loops.sizes[a] < kWorthwhile) continue;
    if (std::abs(loops.strides[0][a]) == 1) to_axis = a;
    if (std::abs(loops.strides[1][a]) == 1) from_axis = a;
  }
  if (to_axis < 0 || from_axis < 0 || to_axis == from_axis) return {};
  return Plane{to_axis, from_axis};
}

constexpr int64_t kEdge = 32;

/// to[r * to_row + c * to_col] = from[r * from_row + c * from_col] for r < rows, c < cols, both at
/// most kEdge; to_col and from_row are 1 or -1. Reads along r and writes along c, through a tile in
/// the first cache.
template <class T>
void transpose_elements(T* to, int64_t to_row, int64_t to_col, const T* from, int64_t from_row,
                        int64_t from_col, int64_t rows, int64_t cols) {
  T tile[kEdge][kEdge + 1];
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = 0; r < rows; ++r) tile[r][c] = from[c * from_col + r * from_row];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[r * to_row + c * to_col] = tile[r][c];
}

/// to[r * to_row + c] = from[r + c * from_col], in registers; rows and cols are multiples of the
/// vector's length.
template <class V>
[[gnu::always_inline]] inline void transpose_squares(float* to, int64_t to_row, const float* from,
                                                     int64_t from_col, int64_t rows, int64_t cols) {
  constexpr int kLanes = kLanesOf<V>;
  for (int64_t r = 0; r < rows; r += kLanes) {
    for (int64_t c = 0; c < cols; c += kLanes) {
      V square[kLanes];
#pragma GCC unroll 8
      for (int i = 0; i < kLanes; ++i) load(square[i], from + r + (c + i) * from_col);
      transpose(square);
#pragma GCC unroll 8
      for (int i = 0; i < kLanes; ++i) store(to + (r + i) * to_row + c, square[i]);
    }
  }
}

/// transpose_elements(), with squares of f32 numbers in registers.
template <class T>
void transpose_tile(T* to, int64_t to_row, int64_t to_col, const T* from, int64_t from_row,
                    int64_t from_col, int64_t rows, int64_t cols) {
  int64_t whole_rows = 0, whole_cols = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (to_col == 1 && from_row == 1) {
      whole_rows = rows / 8 * 8, whole_cols = cols / 8 * 8;
      auto by_8 = [=] {
        transpose_squares<Vector8>(to, to_row, from, from_col, whole_rows, whole_cols);
      };
      simd(by_8, by_8,
           [=] { transpose_squares<Vector4>(to, to_row, from, from_col, whole_rows, whole_cols); });
    }
  }
  if (whole_cols < cols)
    transpose_elements(to + whole_cols * to_col, to_row, to_col, from + whole_cols * from_col,
                       from_row, from_col, rows, cols - whole_cols);
  if (whole_rows < rows && whole_cols > 0)
    transpose_elements(to + whole_rows * to_row, to_row, to_col, from + whole_rows * from_row,
                       from_row, from_col, rows - whole_rows, whole_cols);
}

template <class T>
void copy_transposed(const Loops& loops, Plane plane, T* to, const T* from) {
  const int64_t rows = loops.sizes[plane.from_axis], cols = loops.sizes[plane.to_axis];
  const int64_t bands = ceil_div(rows, kEdge);
  Loops outer = loops;  // over the other axes
  outer.sizes[plane.from_axis] = outer.sizes[plane.to_axis] = 1;
  outer.numel = numel(outer.sizes);
  const Strides &ts = loops.strides[0], &fs = loops.strides[1];
  auto band = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      Dims index;
      Offsets at = seek(outer, b / bands, index);
      int64_t r = b % bands * kEdge;
      T* t = to + at[0] + r * ts[plane.from_axis];
      const T* f = from + at[1] + r * fs[plane.from_axis];
      for (int64_t c = 0; c < cols; c += kEdge)
        transpose_tile(t + c * ts[plane.to_axis], ts[plane.from_axis], ts[plane.to_axis],
                       f + c * fs[plane.to_axis], fs[plane.from_axis], fs[plane.to_axis],
                       std::min(kEdge, rows - r), std::min(kEdge, cols - c));
    }
  };
  parallel_for(outer.numel * bands, std::max<int64_t>(1, kGrain / (kEdge * cols)), band);
}

}  // namespace

BlockCopy block_copy(DType to, DType from) {
  return dispatch(to, [&]<class To>() {
    return dispatch(from, [&]<class From>() -> BlockCopy { return copy_block<To, From>; });
  });
}

void copy(const Loops& loops, void* to, DType to_type, const void* from, DType from_type) {
  if (loops.numel == 0) return;
  std::optional<Plane> plane;
  if (to_type == from_type) plane = find_plane(loops);
  if (plane) {
    dispatch(to_type, [&]<class T>() {
      copy_transposed(loops, *plane, static_cast<T*>(to), static_cast<const T*>(from));
    });
    return;
  }
  BlockCopy block = block_copy(to_type, from_type);
  const int64_t to_size = item_size(to_type), from_size = item_size(from_type);
  const Steps to_steps{loops.row_stride(0), loops.inner_stride(0)};
  const Steps from_steps{loops.row_stride(1), loops.inner_stride(1)};
  parallel_for(loops.numel, kGrain, [&](int64_t begin, int64_t end) {
    for_each_block(loops, begin, end, [&](const Offsets& at, int64_t rows, int64_t count) {
      block(static_cast<char*>(to) + at[0] * to_size, to_steps,
            static_cast<const char*>(from) + at[1] * from_size, from_steps, rows, count);
    });
  });
}

void fill(void* to, DType type, const void* value, int64_t n) {
  BlockCopy block = block_copy(type, type);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    block(static_cast<char*>(to) + begin * item_size(type), {0, 1}, value, {0, 0}, 1, end - begin);
  });
}

bool any_zero(const void* x, DType type, int64_t n) {
  return dispatch(type, [&]<class T>() {
    const T* p = static_cast<const T*>(x);
    return std::find(p, p + n, T{0}) != p + n;
  });
}

}  // namespace tern::kernels
