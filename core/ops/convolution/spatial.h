// Sizes along the spatial axes, and ways to fill positions outside of a tensor.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tern {

/// n numbers: {height, width} or {depth, height, width}. A single number holds for all axes, as in
/// PyTorch: `.padding = 1` and `.padding = {1}` mean `.padding = {1, 1}`.
template <std::size_t n>
class SpatialSize {
 public:
  template <std::integral Int>
  constexpr SpatialSize(Int all) {  // NOLINT: implicit on purpose
    v_.fill(static_cast<int64_t>(all));
  }
  template <std::integral... Int>
  requires(sizeof...(Int) == n && n > 1) constexpr SpatialSize(Int... each)
      : v_{static_cast<int64_t>(each)...} {}
  template <std::same_as<std::array<int64_t, n>> Array>
  constexpr SpatialSize(const Array& each) : v_(each) {}  // NOLINT: implicit on purpose

  constexpr int64_t height() const { return v_[n - 2]; }
  constexpr int64_t width() const { return v_[n - 1]; }
  constexpr int64_t operator[](std::size_t i) const { return v_[i]; }
  constexpr operator const std::array<int64_t, n>&() const { return v_; }  // NOLINT: implicit
  constexpr bool operator==(const SpatialSize&) const = default;

 private:
  std::array<int64_t, n> v_;
};

using Size2 = SpatialSize<2>;
using Size3 = SpatialSize<3>;

/// How an axis a b c d is extended. zeros: 0 0 | a b c d | 0 0, reflect: c b | a b c d | c b,
/// replicate: a a | a b c d | d d, circular: c d | a b c d | a b.
enum class PaddingMode { zeros, reflect, replicate, circular };

}  // namespace tern
