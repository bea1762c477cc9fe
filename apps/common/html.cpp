#include "tern/apps/common/html.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "tern/apps/common/page_style.h"
#include "tern/core/base/terminal_text.h"
#include "tern/data/images/picture.h"

namespace tern::apps {
namespace {

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

}  // namespace

std::string escape_html(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string out;
  for (const char c : terminal_text(text)) {
    const size_t at = kSpecial.find(c);
    if (at == kSpecial.npos)
      out += c;
    else
      out += kNames[at];
  }
  return out;
}

std::string html_page(const std::string& title, const std::string& body,
                      const std::string& generator) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"generator\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escape_html(generator), escape_html(title), page_style(), body);
}

bool is_page_from(const std::string& path, const std::string& generator) {
  constexpr std::streamsize kHead = 1024;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // a pipe would be waited for
  std::ifstream in(path, std::ios::binary);
  std::string head(kHead, '\0');
  in.read(head.data(), kHead);
  head.resize(static_cast<size_t>(in.gcount()));
  return head.starts_with("<!doctype html>") &&
         head.find(fmt::format("<meta name=\"generator\" content=\"{}\">", generator)) !=
             std::string::npos;
}

std::string encode_png(const Bitmap& b) { return data::encode_png({b.height, b.width, b.rgb}); }

std::string png_url(const Bitmap& bitmap) {
  return "data:image/png;base64," + base64(encode_png(bitmap));
}

std::string html_image(const Bitmap& bitmap, int scale, const std::string& description) {
  return fmt::format("<img width=\"{}\" height=\"{}\" alt=\"{}\" src=\"{}\">", bitmap.width * scale,
                     bitmap.height * scale, escape_html(description), png_url(bitmap));
}

std::string html_zoom(const std::string& picture, const std::string& id,
                      const std::string& caption) {
  // Nothing on the page is called "close", so that link leads nowhere and the page does not move.
  return fmt::format(
      "<a class=\"zoom\" id=\"{0}\" href=\"#{0}\" title=\"{1}\">{2}</a>"
      "<a class=\"close\" href=\"#close\" aria-label=\"close\"></a>",
      escape_html(id), escape_html(caption), picture);
}

std::string html_figure(const std::string& content, const std::string& caption) {
  return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", content,
                     escape_html(caption));
}

}  // namespace tern::apps
