// Pillow's operations on colour planes: byte tables, blends with a changed picture, and affine
// maps.
#include "tern/data/images/image_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"

namespace tern::datasets {
namespace {

using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int, 256>;

int pixels_of(const SquarePicture& x) { return static_cast<int>(x.size()) / kImageChannels; }

// A black picture of the same size.
SquarePicture black(const SquarePicture& x) { return SquarePicture(x.size()); }

Histogram histogram(const uint8_t* plane, int pixels) {
  Histogram h{};
  for (int i = 0; i < pixels; ++i) ++h[plane[i]];
  return h;
}

// Replaces every byte by table(channel)[byte].
template <class MakeTable>
SquarePicture look_up(const SquarePicture& x, MakeTable table) {
  SquarePicture y = black(x);
  const int pixels = pixels_of(x);
  for (int c = 0; c < kImageChannels; ++c) {
    const Table t = table(c);
    for (int i = c * pixels; i < (c + 1) * pixels; ++i) y[i] = t[x[i]];
  }
  return y;
}

template <class F>
Table tabulate(F f) {
  Table t;
  for (int v = 0; v < 256; ++v) t[v] = static_cast<uint8_t>(f(v));
  return t;
}

// from + factor * (x - from), truncated and clamped (Pillow's Image.blend). Product and sum are
// each rounded to float, as in Pillow. Computing them in double, where both are exact, keeps
// compilers from fusing them, which would truncate some integers to the next lower one.
SquarePicture blend(const SquarePicture& from, const SquarePicture& x, float factor) {
  SquarePicture y = black(x);
  simd([a = from.data(), b = x.data(), out = y.data(), factor, bytes = static_cast<int>(x.size())] {
    for (int i = 0; i < bytes; ++i) {
      const auto product = static_cast<float>(static_cast<double>(factor) * (b[i] - a[i]));
      auto v = static_cast<float>(a[i] + static_cast<double>(product));
      v = v < 0 ? 0 : v;
      v = v > 255 ? 255 : v;
      out[i] = static_cast<uint8_t>(static_cast<int32_t>(v));
    }
  });
  return y;
}

// ITU-R 601 luma in 16 bits, as Pillow's convert("L"), written to all three planes.
SquarePicture gray(const SquarePicture& x) {
  SquarePicture y = black(x);
  const int pixels = pixels_of(x);
  const uint8_t *r = x.data(), *g = r + pixels, *b = g + pixels;
  for (int i = 0; i < pixels; ++i)
    y[i] = static_cast<uint8_t>((r[i] * 19595 + g[i] * 38470 + b[i] * 7471 + 0x8000) >> 16);
  for (int c = 1; c < kImageChannels; ++c) std::copy_n(y.data(), pixels, y.data() + c * pixels);
  return y;
}

// ImageFilter.SMOOTH: the mean of 3x3 pixels with weight 5 at the centre; borders do not change.
SquarePicture smooth(const SquarePicture& x) {
  SquarePicture y = x;
  const int side = picture_side(x);
  for (int c = 0; c < kImageChannels; ++c)
    for (int row = 1; row < side - 1; ++row) {
      const uint8_t* p = x.data() + (c * side + row) * side;
      uint8_t* out = y.data() + (c * side + row) * side;
      for (int i = 1; i < side - 1; ++i) {
        int sum = 4 * p[i];
        for (int d : {-side, 0, side}) sum += p[i + d - 1] + p[i + d] + p[i + d + 1];
        out[i] = static_cast<uint8_t>((2 * sum + 13) / 26);  // sum / 13, rounded
      }
    }
  return y;
}

}  // namespace

int picture_side(const SquarePicture& x) {
  const auto side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(x.size()) / 3)));
  check(std::ssize(x) == int64_t{3} * side * side,
        "a picture of {} bytes is not three square planes", x.size());
  return side;
}

SquarePicture shift_flip(const SquarePicture& x, int right, int down, bool flip, uint8_t fill) {
  SquarePicture y = black(x);
  const int side = picture_side(x);
  const int first = std::clamp(right, 0, side), last = std::clamp(side + right, 0, side);
  for (int c = 0; c < kImageChannels; ++c)
    for (int row = 0; row < side; ++row) {
      uint8_t* out = y.data() + (c * side + row) * side;
      const int from = row - down;
      std::memset(out, fill, static_cast<size_t>(side));
      if (from >= 0 && from < side && first < last)
        std::memcpy(out + first, x.data() + (c * side + from) * side + first - right,
                    static_cast<size_t>(last - first));
      if (flip) std::reverse(out, out + side);
    }
  return y;
}

SquarePicture shift_flip_reflected(const SquarePicture& x, int right, int down, bool flip) {
  SquarePicture y = black(x);
  const int side = picture_side(x);
  check(std::abs(right) < side && std::abs(down) < side,
        "shift_flip_reflected: a picture of {0} x {0} cannot move by ({1}, {2})", side, right,
        down);
  const auto reflected = [side](int i) { return i < 0 ? -i : i < side ? i : 2 * side - 2 - i; };
  for (int c = 0; c < kImageChannels; ++c)
    for (int row = 0; row < side; ++row) {
      const uint8_t* from = x.data() + (c * side + reflected(row - down)) * side;
      uint8_t* out = y.data() + (c * side + row) * side;
      for (int i = 0; i < side; ++i) out[i] = from[reflected(i - right)];
      if (flip) std::reverse(out, out + side);
    }
  return y;
}

SquarePicture autocontrast(const SquarePicture& x) {
  return look_up(x, [&](int c) {
    const auto plane = x.begin() + c * pixels_of(x);
    auto [low, high] = std::minmax_element(plane, plane + pixels_of(x));
    const int lo = *low, hi = *high;
    if (lo == hi) return tabulate([](int v) { return v; });
    const double scale = 255.0 / (hi - lo), offset = -lo * scale;
    return tabulate(
        [=](int v) { return std::clamp(static_cast<int>(v * scale + offset), 0, 255); });
  });
}

SquarePicture equalize(const SquarePicture& x) {
  return look_up(x, [&](int c) {
    const Histogram h = histogram(x.data() + c * pixels_of(x), pixels_of(x));
    int last = 255;  // the brightest value that occurs
    while (h[last] == 0) --last;
    const int step = (pixels_of(x) - h[last]) / 255;
    if (step == 0) return tabulate([](int v) { return v; });
    int below = step / 2;
    return tabulate([&](int v) { return std::min((below += v > 0 ? h[v - 1] : 0) / step, 255); });
  });
}

SquarePicture posterize(const SquarePicture& x, int bits) {
  check(bits >= 0 && bits <= 8, "posterize: a byte cannot keep {} bits; 0 to 8", bits);
  const int mask = 0xff & ~((1 << (8 - bits)) - 1);
  return look_up(x, [&](int) { return tabulate([=](int v) { return v & mask; }); });
}

SquarePicture solarize(const SquarePicture& x, int threshold) {
  return look_up(x,
                 [&](int) { return tabulate([=](int v) { return v < threshold ? v : 255 - v; }); });
}

SquarePicture adjust_brightness(const SquarePicture& x, float factor) {
  return blend(black(x), x, factor);
}

SquarePicture adjust_color(const SquarePicture& x, float factor) {
  return blend(gray(x), x, factor);
}

SquarePicture adjust_contrast(const SquarePicture& x, float factor) {
  SquarePicture mean = gray(x);
  const int64_t pixels = pixels_of(x);
  const int64_t sum = std::accumulate(mean.begin(), mean.begin() + pixels, int64_t{0});
  std::fill(mean.begin(), mean.end(), static_cast<uint8_t>((2 * sum + pixels) / (2 * pixels)));
  return blend(mean, x, factor);
}

SquarePicture adjust_sharpness(const SquarePicture& x, float factor) {
  return blend(smooth(x), x, factor);
}

SquarePicture affine(const SquarePicture& x, const std::array<double, 6>& m, uint8_t fill) {
  // Positions in 16.16 fixed point, as Pillow's.
  auto fix = [](double v) { return static_cast<int64_t>(std::floor(v * 65536 + 0.5)); };
  const int64_t xx = fix(m[0]), xy = fix(m[1]), yx = fix(m[3]), yy = fix(m[4]);
  const int64_t x0 = fix(m[2] + 0.5 * m[0] + 0.5 * m[1]), y0 = fix(m[5] + 0.5 * m[3] + 0.5 * m[4]);
  SquarePicture y = black(x);
  const int side = picture_side(x), pixels = side * side;
  for (int row = 0; row < side; ++row)
    for (int col = 0; col < side; ++col) {
      const int64_t from_x = (x0 + xx * col + xy * row) >> 16;
      const int64_t from_y = (y0 + yx * col + yy * row) >> 16;
      const bool inside = from_x >= 0 && from_x < side && from_y >= 0 && from_y < side;
      const int64_t from = from_y * side + from_x;
      for (int c = 0; c < pixels * kImageChannels; c += pixels)
        y[c + row * side + col] = inside ? x[c + from] : fill;
    }
  return y;
}

SquarePicture rotate(const SquarePicture& x, double degrees, uint8_t fill) {
  const double angle = -degrees * std::numbers::pi / 180, centre = picture_side(x) / 2.0;
  const double c = std::cos(angle), s = std::sin(angle);
  // p -> R (p - centre) + centre
  return affine(x, {c, s, centre - (c + s) * centre, -s, c, centre - (c - s) * centre}, fill);
}

}  // namespace tern::datasets
