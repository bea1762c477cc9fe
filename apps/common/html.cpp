#include "tern/apps/common/html.h"

#include <fmt/core.h>
#include <png.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"

namespace tern::apps {
namespace {

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ddd; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p, figcaption, .note { color: #555; }
figure { display: inline-block; margin: .4rem 1rem .4rem 0; vertical-align: top; }
figcaption { font-size: .85rem; }
img { image-rendering: pixelated; border: 1px solid #ccc; display: block; }
table { border-collapse: collapse; }
td, th { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid #eee; }
td:first-child, th:first-child { text-align: left; }
.scroll { overflow-x: auto; }
.row { display: flex; flex-wrap: wrap; gap: 1rem; }
.right { color: #1a7f37; } .wrong { color: #c1121f; }
.heads { overflow-x: auto; margin: .4rem 0; }
.heads td, .heads th { padding: .15rem .25rem; text-align: center; border: 0; color: #555;
                       font-size: .8rem; font-weight: normal; white-space: nowrap; }
details > summary { cursor: pointer; }
.sentence { border-top: 1px solid #ddd; padding: .6rem 0; }
.sentence > summary { font-size: 1.05rem; padding-left: 1.2rem; text-indent: -1.2rem; }
.sentence h3 { font-size: 1.1rem; margin-top: 1.6rem; }
svg text { font: 12px system-ui, sans-serif; fill: #444; }
)css";

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

void append_bytes(png_structp png, png_bytep data, size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(data), size);
}

[[noreturn]] void on_png_error(png_structp, png_const_charp message) {
  fail(fmt::format("png: {}", message));
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escape_html(title), kStyle, body);
}

std::string encode_png(const Bitmap& b) {
  check(b.width > 0 && b.height > 0 && std::ssize(b.rgb) == 3 * b.width * b.height,
        "png: {} bytes for a picture of {} x {}", b.rgb.size(), b.width, b.height);
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, on_png_error, nullptr);
  check(png != nullptr, "png: no memory");
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, append_bytes, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(b.width), static_cast<png_uint_32>(b.height), 8,
               PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int64_t y = 0; y < b.height; ++y) png_write_row(png, b.rgb.data() + y * b.width * 3);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

std::string png_url(const Bitmap& bitmap) {
  return "data:image/png;base64," + base64(encode_png(bitmap));
}

std::string html_image(const Bitmap& bitmap, int scale, const std::string& description) {
  return fmt::format("<img width=\"{}\" height=\"{}\" alt=\"{}\" src=\"{}\">", bitmap.width * scale,
                     bitmap.height * scale, escape_html(description), png_url(bitmap));
}

void diverging_color(double value, uint8_t* rgb) {
  if (std::isnan(value)) {
    rgb[0] = rgb[1] = rgb[2] = 160;
    return;
  }
  constexpr double kBlue[] = {33, 102, 172}, kWhite[] = {250, 250, 250}, kRed[] = {178, 24, 43};
  double t = std::min(std::abs(value), 1.0);
  const double* end = value < 0 ? kBlue : kRed;
  for (int k = 0; k < 3; ++k)
    rgb[k] = static_cast<uint8_t>(std::lround(kWhite[k] + t * (end[k] - kWhite[k])));
}

std::string html_heatmap(const std::vector<float>& values, int64_t rows, int64_t columns,
                         double limit, int scale, const std::string& description) {
  check(std::ssize(values) == rows * columns, "heatmap: {} values for {} x {}", values.size(), rows,
        columns);
  Bitmap b{columns, rows, std::vector<uint8_t>(values.size() * 3)};
  for (size_t i = 0; i < values.size(); ++i)
    diverging_color(limit > 0 ? static_cast<double>(values[i]) / limit : 0, &b.rgb[3 * i]);
  return html_image(b, scale, description);
}

}  // namespace tern::apps
