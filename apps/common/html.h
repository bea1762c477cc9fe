// Self-contained report pages: text, pictures and charts in one HTML file without scripts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/data/images/picture.h"

namespace tern::apps {

/// `text` with &, <, > and quotes made safe for HTML, SVG and attributes, and control characters
/// for whoever looks at the page in a terminal (core/base/terminal_text.h).
std::string escape_html(std::string_view text);

/// The style sheet of pages, for light and dark screens from 320 pixels on.
std::string page_style();

/// A whole page with the reports' style sheet around `body`. `generator` is the program that the
/// page says it is from.
std::string html_page(const std::string& title, const std::string& body,
                      const std::string& generator = "tern");
/// Whether the file is a page that says so: what may be written over without having been named.
bool is_page_from(const std::string& path, const std::string& generator = "tern");

using Bitmap = datasets::Picture;

/// Each pixel as a square of `scale` pixels.
Bitmap enlarged(const Bitmap& bitmap, int64_t scale);

/// A PNG of it as a URL that holds it, for src and href.
std::string png_url(const Bitmap& bitmap);

/// An <img> element that holds the bitmap itself, `scale` screen pixels to each of its own;
/// narrower screens shrink it.
std::string html_image(const Bitmap& bitmap, int scale, const std::string& description);

/// A picture that fills the window after a click, until the next one. `id` is its own on the page;
/// `caption` is shown on hovering and below the large picture.
std::string html_zoom(const std::string& picture, const std::string& id,
                      const std::string& caption);

/// A row of texts for a table, in cells of this tag; `kind` is its class, if it has one.
std::string html_row(const std::vector<std::string>& texts, const char* tag = "td",
                     const std::string& kind = "");
/// A table of rows in a box that scrolls where it is too wide.
std::string html_table(const std::string& rows, const std::string& kind = "");

/// A <figure> of HTML content with a text under it.
std::string html_figure(const std::string& content, const std::string& caption);

}  // namespace tern::apps
