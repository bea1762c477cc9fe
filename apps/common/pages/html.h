// Self-contained report pages: text, pictures and charts in one HTML file, which loads nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/data/images/picture.h"

namespace tern::apps {

/// Escapes &, <, > and quotes for HTML, SVG and attributes, and control characters for users who
/// view the page in a terminal (core/base/terminal_text.h).
std::string escape_html(std::string_view text);

/// The style sheet of pages, for light and dark screens at least 320 pixels wide.
std::string page_style();

/// The script of pages: values of charts under the pointer or, by arrow keys, in the focused chart;
/// tables of the class "sortable" are sorted by a click on a heading. Pages work without it.
std::string page_script();

/// A whole page: `body` with the reports' style sheet and script. The page names `generator` as the
/// program that made it.
std::string html_page(const std::string& title, const std::string& body,
                      const std::string& generator = "tern");
/// Whether the file is a page that names `generator`. Such a page may be overwritten even if the
/// user did not name it.
bool is_page_from(const std::string& path, const std::string& generator = "tern");

using Bitmap = datasets::Picture;

/// Repeats each pixel as a square of scale x scale pixels.
Bitmap enlarged(const Bitmap& bitmap, int64_t scale);

/// The bitmap as a PNG in a data URL, for src and href.
std::string png_url(const Bitmap& bitmap);

/// An <img> element that contains the bitmap, with `scale` screen pixels per pixel; narrow screens
/// shrink it.
std::string html_image(const Bitmap& bitmap, int scale, const std::string& description);

/// A picture that fills the window after a click, until the next click. `id` must be unique on the
/// page; `caption` is shown on hovering and below the large picture.
std::string html_zoom(const std::string& picture, const std::string& id,
                      const std::string& caption);

/// A table row of texts, in cells of this tag. `kind` is its CSS class; empty: none.
std::string html_row(const std::vector<std::string>& texts, const char* tag = "td",
                     const std::string& kind = "");
/// A table of rows in a box that scrolls if it is too wide. The kind "sortable" needs a first row
/// of headings.
std::string html_table(const std::string& rows, const std::string& kind = "");

/// A <figure> of HTML content with a caption below it.
std::string html_figure(const std::string& content, const std::string& caption);

}  // namespace tern::apps
