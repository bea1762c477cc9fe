// Self-contained report pages: text, pictures and charts in one HTML file without scripts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::apps {

/// `text` with &, <, > and quotes made safe for HTML, SVG and attributes.
std::string escape_html(std::string_view text);

/// A whole page with the reports' style sheet around `body`.
std::string html_page(const std::string& title, const std::string& body);

/// 8-bit RGB pixels, row by row, 3 * width * height bytes.
struct Bitmap {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

/// The bitmap as a PNG file.
std::string encode_png(const Bitmap& bitmap);

/// The PNG as a URL that holds it, for src and href.
std::string png_url(const Bitmap& bitmap);

/// An <img> element that holds the bitmap itself, `scale` screen pixels to each of its own.
std::string html_image(const Bitmap& bitmap, int scale, const std::string& description);

/// Colour on a diverging scale: -1 blue, 0 white, 1 red. NaN is grey.
void diverging_color(double value, uint8_t* rgb);

/// A matrix (row-major) as an image, coloured by value / limit.
std::string html_heatmap(const std::vector<float>& values, int64_t rows, int64_t columns,
                         double limit, int scale, const std::string& description);

}  // namespace tern::apps
