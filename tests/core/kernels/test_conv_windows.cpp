// The words of Windows::Order::quads, element by element: bf16 tiles of AVX512_BF16 and of AMX read
// them as they are. The layout of AMX is checked here on every processor.
#include <doctest/doctest.h>

#include <bit>
#include <random>
#include <vector>

#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/convolution/conv_windows.h"

namespace tern::kernels::test_conv_windows {
namespace {

struct Drawn {
  std::mt19937 engine{1};
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
};

/// A convolution of any form; out_size is 0 if the kernel does not fit.
Conv any_conv(Drawn& draw) {
  Conv c;
  c.batch = draw(1, 4);
  c.groups = draw(1, 2);
  c.in = c.groups * draw(1, 30);
  c.out = c.groups;
  c.size = {draw(1, 2), draw(1, 9), draw(1, 20)};
  for (size_t a = 0; a < 3; ++a) {
    c.kernel[a] = draw(1, 3);
    c.stride[a] = draw(1, 3);
    c.padding[a] = draw(0, 2);
    c.dilation[a] = draw(1, 2);
    const int64_t room = c.size[a] + 2 * c.padding[a] - (c.kernel[a] - 1) * c.dilation[a] - 1;
    c.out_size[a] = room < 0 ? 0 : room / c.stride[a] + 1;
  }
  return c;
}

/// The bits of the element that place k of the sums reads for an output: 0 outside of the picture
/// and for channels that fill up the last four.
uint32_t element(const Conv& c, const std::vector<float>& x, int64_t k, int64_t output) {
  const int64_t channel = k / (4 * c.taps()) * 4 + k % 4, tap = k / 4 % c.taps();
  if (channel >= c.in_group()) return 0;
  const int64_t picture = output / c.out_plane();
  int64_t at = output % c.out_plane(), t = tap, place = 0, unit = 1;
  for (size_t a = 3; a-- > 0;) {
    const int64_t i =
        at % c.out_size[a] * c.stride[a] - c.padding[a] + t % c.kernel[a] * c.dilation[a];
    if (i < 0 || i >= c.size[a]) return 0;
    place += i * unit;
    unit *= c.size[a];
    at /= c.out_size[a];
    t /= c.kernel[a];
  }
  return std::bit_cast<uint32_t>(
      as_factor(x[static_cast<size_t>((picture * c.in + channel) * c.plane() + place)]));
}

/// The place of a group's sums that is in the upper or lower half of word `word`.
int64_t place_of(WordOrder order, int64_t word, bool upper) {
  if (order == WordOrder::neighbours) return 2 * word + (upper ? 1 : 0);
  return word % 8 * 4 + word / 8 + (upper ? 0 : 2);
}

void check_words(const Conv& c, const std::vector<float>& x, WordOrder order, Drawn& draw) {
  const Windows w(c, Windows::Order::quads, {x.data()}, 0);
  const int64_t k = w.features(), groups = (k + kBf16Group - 1) / kBf16Group;
  const int64_t first = draw(0, groups - 1) * kBf16Group;
  const int64_t rows = std::min(k - first, 4 * draw(1, 40));
  const int64_t column = draw(0, w.outputs() - 1),
                width = std::min(w.outputs() - column, draw(1, 32));
  Windows::Part part(w, first, rows, column, width, order);
  part.choose(column, width);
  const int64_t words = (rows + kBf16Group - 1) / kBf16Group * kBf16Group / 2;
  std::vector<float> packed(static_cast<size_t>(words * 32), 7.f);
  part.copy_words(packed.data(), 32);
  int64_t wrong = 0;
  for (int64_t i = 0; i < words; ++i)
    for (int64_t j = 0; j < 32; ++j) {
      auto half = [&](bool upper) {
        const int64_t row = i / 16 * kBf16Group + place_of(order, i % 16, upper);
        return row < rows && j < width ? element(c, x, first + row, column + j) : 0;
      };
      const uint32_t expected = half(true) | half(false) >> 16;
      if (std::bit_cast<uint32_t>(packed[static_cast<size_t>(i * 32 + j)]) != expected) ++wrong;
    }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("windows: words of four channels are in the order of the tiles, rounded") {
  Drawn draw;
  for (int i = 0; i < 300; ++i) {
    const Conv c = any_conv(draw);
    if (c.out_plane() == 0) continue;
    std::vector<float> x(static_cast<size_t>(c.batch * c.in * c.plane()));
    for (float& v : x)  // every fourth is of any bits: NaN, infinity, below the smallest normal
      v = draw(0, 3) > 0 ? static_cast<float>(draw(-1000, 1000)) / 37
                         : std::bit_cast<float>(static_cast<uint32_t>(draw.engine()));
    CAPTURE(i);
    check_words(c, x, WordOrder::even_and_odd, draw);
    check_words(c, x, WordOrder::neighbours, draw);
  }
}

}  // namespace tern::kernels::test_conv_windows
