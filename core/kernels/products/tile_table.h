// Tables of tiles, the functions that compute a product's innermost part, by their numbers of rows.
// Inside of core only.
#pragma once

#include <array>
#include <utility>

namespace tern::kernels {

/// {tile(1), ..., tile(kRows)}, with std::integral_constants as arguments.
template <int kRows>
constexpr auto tile_table(auto tile) {
  return [tile]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    return std::array{tile(std::integral_constant<int, kIndex + 1>())...};
  }
  (std::make_integer_sequence<int, kRows>());
}

}  // namespace tern::kernels
