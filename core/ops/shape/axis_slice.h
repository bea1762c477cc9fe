// The part of one axis that slice(x, {...}) takes. In Python and here:
//
//   x[:, 1:3, 2]        slice(x, {{}, {1, 3}, 2})
//   x[-1, ::2]          slice(x, {-1, {{}, {}, 2}})
//   x[4:, :-1]          slice(x, {{4, {}}, {{}, -1}})
//
// If the number of axes is known only at run time, pass a std::vector<AxisSlice>.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

namespace tern {

class AxisSlice {
 public:
  /// Where a range starts or ends. A negative position counts from the end of the axis. {} stands
  /// for the end of the axis itself, like an omitted number in Python.
  struct End {
    End() = default;
    template <std::integral Int>
    End(Int position) : at(static_cast<int64_t>(position)) {}  // NOLINT: implicit on purpose
    std::optional<int64_t> at;
  };

  /// The whole axis.
  AxisSlice() = default;
  /// One index; the result lacks the axis.
  template <std::integral Int>
  AxisSlice(Int index) : start(index), is_index(true) {}  // NOLINT: implicit on purpose
  /// Python's start:end:step.
  AxisSlice(End from, End to, int64_t by = 1) : start(from), end(to), step(by) {}

  End start, end;  ///< if is_index, `start` is the index
  int64_t step = 1;
  bool is_index = false;
};

}  // namespace tern
