// Recognises PNG and JPEG files, crops and mirrors pictures, and converts them from and to tensors.
#include "tern/data/images/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tern/core/tape/record.h"
#include "tern/data/images/detail/decode.h"
#include "tern/data/loading/gzip.h"

namespace tern::datasets {
namespace {

constexpr int64_t kMaxFile = int64_t{1} << 30;

Picture blank(int64_t height, int64_t width) {
  return {height, width, std::vector<uint8_t>(static_cast<size_t>(3 * height * width))};
}

}  // namespace

void detail::check_picture(const char* op, const Picture& x) {
  check(x.height > 0 && x.width > 0 && std::ssize(x.rgb) == 3 * x.height * x.width,
        "{}: a picture of {} x {} has {} bytes; it must have at least one pixel, and three bytes "
        "per pixel",
        op, x.height, x.width, x.rgb.size());
}

Picture detail::allocate_picture(const std::string& name, int64_t height, int64_t width,
                                 int64_t packed, int64_t per_byte, const DecodeOptions& options) {
  check_io(height > 0 && width > 0,
           "{}: the picture has {} x {} pixels; both sides must be above 0", name, height, width);
  check_io(height <= options.max_pixels / width,
           "{}: {} x {} pixels are over the limit of {} (DecodeOptions::max_pixels)", name, height,
           width, options.max_pixels);
  check_io(height * width / per_byte <= packed, "{}: claims {} x {} pixels in {} bytes", name,
           height, width, packed);
  return blank(height, width);
}

Picture decode_picture(std::span<const uint8_t> bytes, const std::string& name,
                       const DecodeOptions& options) {
  constexpr std::array<uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  auto begins = [&](std::span<const uint8_t> with) {
    return bytes.size() >= with.size() && std::equal(with.begin(), with.end(), bytes.begin());
  };
  if (begins(kPng)) return detail::decode_png(bytes, name, options);
  if (begins(std::array<uint8_t, 3>{0xff, 0xd8, 0xff}))
    return detail::decode_jpeg(bytes, name, options);
  fail_io(fmt::format("{}: {}", name, detail::describe_foreign_picture(bytes)));
}

Picture load_picture(const std::string& path, const DecodeOptions& options) {
  ByteReader file(path);
  check_io(!file.is_gzip(), "{}: is packed by gzip; unpack it first", path);
  const int64_t size = *file.remaining();
  check_io(size <= kMaxFile, "{}: {} bytes are over the limit of {} for a picture", path, size,
           kMaxFile);
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  file.read_exactly(bytes.data(), size);
  return decode_picture(bytes, path, options);
}

Picture crop(const Picture& x, int64_t top, int64_t left, int64_t height, int64_t width) {
  detail::check_picture("crop", x);
  check(top >= 0 && left >= 0 && height > 0 && width > 0 && top <= x.height - height &&
            left <= x.width - width,
        "crop: {} x {} pixels from ({}, {}) are not all inside a picture of {} x {}", height, width,
        top, left, x.height, x.width);
  Picture y = blank(height, width);
  for (int64_t row = 0; row < height; ++row)
    std::memcpy(y.row(row), x.row(top + row) + 3 * left, static_cast<size_t>(3 * width));
  return y;
}

Picture center_crop(const Picture& x, int64_t height, int64_t width) {
  check(height <= x.height && width <= x.width,
        "center_crop: {} x {} pixels do not fit in a picture of {} x {}; resize it first", height,
        width, x.height, x.width);
  // Halves go to even numbers, as Python rounds.
  auto start = [](int64_t all, int64_t part) {
    return std::lrint(static_cast<double>(all - part) / 2);
  };
  return crop(x, start(x.height, height), start(x.width, width), height, width);
}

Picture mirror(const Picture& x) {
  detail::check_picture("mirror", x);
  Picture y = blank(x.height, x.width);
  for (int64_t row = 0; row < x.height; ++row)
    for (int64_t col = 0; col < x.width; ++col)
      std::copy_n(x.row(row) + 3 * col, 3, y.row(row) + 3 * (x.width - 1 - col));
  return y;
}

Tensor to_tensor(const Picture& x) {
  detail::check_picture("to_tensor", x);
  Fresh out({3, x.height, x.width}, DType::u8);
  uint8_t* to = out.data<uint8_t>();
  const int64_t pixels = x.height * x.width;
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = 0; c < 3; ++c) to[c * pixels + i] = x.rgb[static_cast<size_t>(3 * i + c)];
  return not_differentiable(out);
}

Picture to_picture(const Tensor& x) {
  check(x.ndim() == 3 && x.size(0) == 3 && x.dtype() == DType::u8 && x.numel() > 0,
        "to_picture: needs (3, height, width) u8, got {} {}", x.dtype(), x.shape());
  Picture y = blank(x.size(1), x.size(2));
  const Tensor planes = x.contiguous();
  const uint8_t* from = planes.data<uint8_t>();
  const int64_t pixels = y.height * y.width;
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = 0; c < 3; ++c) y.rgb[static_cast<size_t>(3 * i + c)] = from[c * pixels + i];
  return y;
}

}  // namespace tern::datasets
