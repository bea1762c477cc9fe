#include "tern/data/images/image_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "tern/core/base/simd.h"

namespace tern::data {
namespace {

constexpr int kSide = kImageSide;
using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int, 256>;

Histogram histogram(const uint8_t* plane) {
  Histogram h{};
  for (int i = 0; i < kImagePixels; ++i) ++h[plane[i]];
  return h;
}

// Replaces every byte by table(channel)[byte].
template <class MakeTable>
Image look_up(const Image& x, MakeTable table) {
  Image y;
  for (int c = 0; c < kImageChannels; ++c) {
    const Table t = table(c);
    for (int i = c * kImagePixels; i < (c + 1) * kImagePixels; ++i) y[i] = t[x[i]];
  }
  return y;
}

template <class F>
Table tabulate(F f) {
  Table t;
  for (int v = 0; v < 256; ++v) t[v] = static_cast<uint8_t>(f(v));
  return t;
}

// from + factor * (x - from), cut off towards zero and clamped (Pillow's Image.blend). Product and
// sum are rounded to float one by one, as Pillow's; the detour by double, in which both are exact,
// keeps compilers from fusing them, which would cut off some whole numbers to the next lower one.
Image blend(const Image& from, const Image& x, float factor) {
  Image y;
  simd([a = from.data(), b = x.data(), out = y.data(), factor] {
    for (int i = 0; i < kImageBytes; ++i) {
      const auto product = static_cast<float>(static_cast<double>(factor) * (b[i] - a[i]));
      auto v = static_cast<float>(a[i] + static_cast<double>(product));
      v = v < 0 ? 0 : v;
      v = v > 255 ? 255 : v;
      out[i] = static_cast<uint8_t>(static_cast<int32_t>(v));
    }
  });
  return y;
}

// ITU-R 601 luma in 16 bits, as Pillow's convert("L"), in all three planes.
Image gray(const Image& x) {
  Image y;
  const uint8_t *r = x.data(), *g = r + kImagePixels, *b = g + kImagePixels;
  for (int i = 0; i < kImagePixels; ++i)
    y[i] = static_cast<uint8_t>((r[i] * 19595 + g[i] * 38470 + b[i] * 7471 + 0x8000) >> 16);
  std::memcpy(y.data() + kImagePixels, y.data(), kImagePixels);
  std::memcpy(y.data() + 2 * kImagePixels, y.data(), kImagePixels);
  return y;
}

// ImageFilter.SMOOTH: the mean of 3x3 pixels with weight 5 in the middle; borders stay.
Image smooth(const Image& x) {
  Image y = x;
  for (int c = 0; c < kImageChannels; ++c)
    for (int row = 1; row < kSide - 1; ++row) {
      const uint8_t* p = x.data() + (c * kSide + row) * kSide;
      uint8_t* out = y.data() + (c * kSide + row) * kSide;
      for (int i = 1; i < kSide - 1; ++i) {
        int sum = 4 * p[i];
        for (int d : {-kSide, 0, kSide}) sum += p[i + d - 1] + p[i + d] + p[i + d + 1];
        out[i] = static_cast<uint8_t>((2 * sum + 13) / 26);  // sum / 13, rounded
      }
    }
  return y;
}

}  // namespace

Image shift_flip(const Image& x, int right, int down, bool flip, uint8_t fill) {
  Image y;
  const int first = std::clamp(right, 0, kSide), last = std::clamp(kSide + right, 0, kSide);
  for (int c = 0; c < kImageChannels; ++c)
    for (int row = 0; row < kSide; ++row) {
      uint8_t* out = y.data() + (c * kSide + row) * kSide;
      const int from = row - down;
      std::memset(out, fill, kSide);
      if (from >= 0 && from < kSide && first < last)
        std::memcpy(out + first, x.data() + (c * kSide + from) * kSide + first - right,
                    static_cast<size_t>(last - first));
      if (flip) std::reverse(out, out + kSide);
    }
  return y;
}

Image autocontrast(const Image& x) {
  return look_up(x, [&](int c) {
    auto [low, high] =
        std::minmax_element(x.begin() + c * kImagePixels, x.begin() + (c + 1) * kImagePixels);
    const int lo = *low, hi = *high;
    if (lo == hi) return tabulate([](int v) { return v; });
    const double scale = 255.0 / (hi - lo), offset = -lo * scale;
    return tabulate(
        [=](int v) { return std::clamp(static_cast<int>(v * scale + offset), 0, 255); });
  });
}

Image equalize(const Image& x) {
  return look_up(x, [&](int c) {
    const Histogram h = histogram(x.data() + c * kImagePixels);
    int last = 255;  // the brightest value that occurs
    while (h[last] == 0) --last;
    const int step = (kImagePixels - h[last]) / 255;
    if (step == 0) return tabulate([](int v) { return v; });
    int below = step / 2;
    return tabulate([&](int v) { return std::min((below += v > 0 ? h[v - 1] : 0) / step, 255); });
  });
}

Image posterize(const Image& x, int bits) {
  const int mask = 0xff & ~((1 << (8 - bits)) - 1);
  return look_up(x, [&](int) { return tabulate([=](int v) { return v & mask; }); });
}

Image solarize(const Image& x, int threshold) {
  return look_up(x,
                 [&](int) { return tabulate([=](int v) { return v < threshold ? v : 255 - v; }); });
}

Image adjust_brightness(const Image& x, float factor) { return blend(Image{}, x, factor); }

Image adjust_color(const Image& x, float factor) { return blend(gray(x), x, factor); }

Image adjust_contrast(const Image& x, float factor) {
  const Image luma = gray(x);
  int sum = 0;
  for (int i = 0; i < kImagePixels; ++i) sum += luma[i];
  Image mean;
  mean.fill(static_cast<uint8_t>((2 * sum + kImagePixels) / (2 * kImagePixels)));  // rounded
  return blend(mean, x, factor);
}

Image adjust_sharpness(const Image& x, float factor) { return blend(smooth(x), x, factor); }

Image affine(const Image& x, const std::array<double, 6>& m, uint8_t fill) {
  // Positions in 16.16 fixed point, as Pillow's.
  auto fix = [](double v) { return static_cast<int64_t>(std::floor(v * 65536 + 0.5)); };
  const int64_t xx = fix(m[0]), xy = fix(m[1]), yx = fix(m[3]), yy = fix(m[4]);
  const int64_t x0 = fix(m[2] + 0.5 * m[0] + 0.5 * m[1]), y0 = fix(m[5] + 0.5 * m[3] + 0.5 * m[4]);
  Image y;
  for (int row = 0; row < kSide; ++row)
    for (int col = 0; col < kSide; ++col) {
      const int64_t from_x = (x0 + xx * col + xy * row) >> 16;
      const int64_t from_y = (y0 + yx * col + yy * row) >> 16;
      const bool inside = from_x >= 0 && from_x < kSide && from_y >= 0 && from_y < kSide;
      const int64_t from = from_y * kSide + from_x;
      for (int c = 0; c < kImagePixels * kImageChannels; c += kImagePixels)
        y[c + row * kSide + col] = inside ? x[c + from] : fill;
    }
  return y;
}

Image rotate(const Image& x, double degrees, uint8_t fill) {
  const double angle = -degrees * std::numbers::pi / 180, centre = kSide / 2.0;
  const double c = std::cos(angle), s = std::sin(angle);
  // p -> R (p - centre) + centre
  return affine(x, {c, s, centre - (c + s) * centre, -s, c, centre - (c - s) * centre}, fill);
}

}  // namespace tern::data
