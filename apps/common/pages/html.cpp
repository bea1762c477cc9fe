// The style sheet and the building blocks of report pages. Zooming and dark mode work in CSS only;
// page_script.cpp has what does not.
#include "tern/apps/common/pages/html.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "tern/apps/common/pages/color.h"
#include "tern/core/base/terminal_text.h"

namespace tern::apps {
namespace {

constexpr std::string_view kText = R"css(
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 110rem; margin: 1.5rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: 1rem 0; }
p { max-width: 48rem; }
h1 + p { margin-top: 0; }
p.answer { font-size: 1.3rem; line-height: 1.3; color: var(--ink); margin: .8rem 0 .2rem; }
.answer + p, p.state { margin: .2rem 0; }
p, figcaption, .note { color: var(--soft); }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
code { overflow-wrap: anywhere; }
pre { overflow-x: auto; }
details { margin: .8rem 0; }
details > summary { cursor: pointer; }
table { border-collapse: collapse; }
td, th { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child, .facts td, .facts th, .texts td, .texts th { text-align: left; }
.facts td { vertical-align: top; overflow-wrap: anywhere; }
.facts td:first-child { white-space: nowrap; color: var(--soft); }
.scroll .facts td:not(:first-child) { min-width: 7.5rem; }
.best { font-weight: bold; }
.scores td { white-space: nowrap; }
.scores :is(td, th):first-child { position: sticky; left: 0; background: var(--paper); }
.results td:first-child { min-width: 9rem; }
.scroll { overflow-x: auto; background:  /* a shadow where more is to the right */
          linear-gradient(to left, var(--paper) 1rem, transparent) right / 4rem 100% local,
          linear-gradient(to left, var(--soft), transparent) right / .6rem 100%;
          background-repeat: no-repeat; }
.row { display: flex; flex-wrap: wrap; gap: 1rem; }
.row > * { max-width: 100%; }
.strips figure { display: block; }
.layers { display: flex; flex-wrap: wrap; gap: 0 3rem; }
.layers > * { max-width: 100%; }
.right { color: var(--good); } .wrong { color: var(--bad); }
.share { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.share.hit { background: color-mix(in srgb, var(--good) var(--share), transparent); }
.share.miss { background: color-mix(in srgb, var(--bad) var(--share), transparent); }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0;
            text-align: inherit; cursor: pointer; }
th[aria-sort] button::after { content: " \25B2"; }
th[aria-sort=descending] button::after { content: " \25BC"; }
@media (min-width: 52rem) { .scroll th { white-space: nowrap; } }
@media (max-width: 500px) {
  body { margin-top: .6rem; padding: 0 .6rem; }
  td, th { padding: .15rem .35rem; }
}
)css";

constexpr std::string_view kPictures = R"css(
figure { display: inline-block; margin: .4rem 1rem .4rem 0; vertical-align: top; max-width: 100%; }
figcaption { font-size: .85rem; }
img { image-rendering: pixelated; border: 1px solid var(--line); display: block; max-width: 100%;
      height: auto; }
svg { display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg.map { max-width: 100%; height: auto; }
svg image { image-rendering: pixelated; }
svg.bar text, svg.ticks text { font-size: 10px; fill: var(--soft); }
svg.map .cut { stroke: var(--paper); }
.heads { overflow-x: auto; margin: .4rem 0; }
.heads td, .heads th { padding: .15rem .25rem; text-align: center; border: 0; color: var(--soft);
                       font-size: .8rem; font-weight: normal; white-space: nowrap; }
.heads img { max-width: none; }
.sentence { border-top: 1px solid var(--line); padding: .6rem 0; }
.sentence > summary { font-size: 1.05rem; padding-left: 1.2rem; text-indent: -1.2rem; }
.sentence h3 { font-size: 1.1rem; margin-top: 1.6rem; }
)css";

// A picture that fills the window while its link is the page's target (:target). An svg shows only
// its cells, of size c x r, until it is large; then the whole sheet of size w x h, with the cells
// at (x, y).
constexpr std::string_view kZoom = R"css(
.zoom { display: block; width: fit-content; cursor: zoom-in; scroll-margin: 45vh;
        color: var(--soft); }
.zoom svg { border: 1px solid var(--line); }
.zoom:target > * { position: fixed; z-index: 2; cursor: default; border: 0; }
.zoom:target > img { inset: 0; margin: auto; width: min(88vw, 88vh); }
.zoom:target > svg { --k: min(94vw / var(--w), 90vh / var(--h), 3px); overflow: visible;
                     width: calc(var(--k) * var(--c)); height: calc(var(--k) * var(--r));
                     left: calc(50vw + var(--k) * (var(--x) - var(--w) / 2));
                     top: calc(48vh + var(--k) * (var(--y) - var(--h) / 2)); }
.zoom:target:has(img)::after { content: attr(title); position: fixed; z-index: 2;
                              inset: auto 0 .5rem; text-align: center; font-size: .9rem;
                              pointer-events: none; }
.zoom:target + .close { position: fixed; inset: 0; z-index: 1; background: var(--paper);
                        cursor: zoom-out; }
.tokens:has(:checked) + .heads svg { overflow: visible; border: 0;
                     width: calc(var(--c) * 1px); height: calc(var(--r) * 1px);
                     margin: calc(var(--y) * 1px) calc((var(--w) - var(--x) - var(--c)) * 1px)
                             calc((var(--h) - var(--y) - var(--r)) * 1px) calc(var(--x) * 1px); }
)css";

constexpr std::string_view kCharts = R"css(
.charts { display: grid; gap: 1rem 1.5rem; margin-top: 1rem;
          grid-template-columns: repeat(var(--columns, 1), minmax(0, 1fr)); }
.charts > :first-child { grid-column: span var(--first, 1); }
@media (min-width: 52rem) { .charts { --columns: var(--columns2); --first: var(--first2); } }
@media (min-width: 80rem) { .charts { --columns: var(--columns3); --first: var(--first3); } }
@media (min-width: 112rem) { .charts { --columns: var(--columns4); --first: var(--first4); } }
.leading { display: grid; gap: 1rem 1.5rem; margin-top: 1rem; }
@media (min-width: 52rem) { .leading { grid-template-columns: repeat(2, minmax(0, 1fr)); }
                            .leading > :first-child { grid-column: span 2; } }
@media (min-width: 80rem) { .leading { grid-template-columns: minmax(0, 2fr) minmax(0, 1fr); }
                            .leading > :first-child { grid-area: 1 / 1 / span 2 / 2; } }
.chart { display: block; position: relative; margin: 0; width: 100%; max-width: 48rem; }
.chart > svg { touch-action: pan-y; }
.cross { position: absolute; border-left: 1px solid var(--soft); pointer-events: none; }
.values { position: absolute; z-index: 1; pointer-events: none; padding: .2rem .5rem;
          max-width: 60%; font-size: .8rem; color: var(--ink); background: var(--paper);
          border: 1px solid var(--line); border-radius: 4px; }
.leading > .chart { max-width: none; }
.chart .top { display: flex; justify-content: space-between; gap: 1rem; margin-left: .5rem;
              font-size: .87rem; }
.chart > svg { width: calc(100% - 90px); margin: 8px 24px 42px 66px; }
.chart > svg, .chart > svg svg { overflow: visible; }
.chart .grid { stroke: var(--line); }
.chart polyline, .legend polyline { fill: none; stroke-width: 1.8;
                                    vector-effect: non-scaling-stroke; }
.chart .raw { opacity: .35; stroke-width: 1; }
.chart .logarithmic, .chart:has(:checked) .plain { display: none; }
.chart:has(:checked) .logarithmic { display: block; }
.switch { color: var(--soft); cursor: pointer; white-space: nowrap; }
.switch input { margin: 0 .35rem 0 0; vertical-align: middle; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1rem; margin-left: .8rem; }
.legend svg { display: inline; vertical-align: middle; }
#axis0:checked ~ * :is(.axis1, .axis2), #axis1:checked ~ * :is(.axis0, .axis2),
#axis2:checked ~ * :is(.axis0, .axis1) { display: none !important; }
)css";

// Pictures are drawn for white paper. In dark mode this inverts their lightness and keeps their
// hue: white becomes darker than the page, so that `lighten` shows the page's colour in its place.
constexpr std::string_view kTurned =
    ".turned { filter: invert(.92) hue-rotate(180deg); mix-blend-mode: lighten;";

std::string variables(const Theme& t) {
  std::string s;
  for (const auto& [name, color] : {std::pair{"paper", t.paper},
                                    {"ink", t.ink},
                                    {"soft", t.soft},
                                    {"line", t.line},
                                    {"good", t.good},
                                    {"bad", t.bad},
                                    {"link", t.link}})
    s += fmt::format(" --{}: {};", name, hex(color));
  for (size_t i = 0; i < t.series.size(); ++i) s += fmt::format(" --c{}: {};", i, hex(t.series[i]));
  return s;
}

std::string class_of(const std::string& kind) {
  return kind.empty() ? "" : fmt::format(" class=\"{}\"", kind);
}

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

std::string page_style() {
  std::string s = fmt::format(
      "\n:root {{ color-scheme: light dark;{} }}\n"
      "@media screen and (prefers-color-scheme: dark) {{\n:root {{{} }}\n{}{} }}\n}}",
      variables(kLightTheme), variables(kDarkTheme), kTurned, variables(kLightTheme));
  s += kText;
  s += kPictures;
  s += kZoom;
  s += kCharts;
  for (size_t i = 0; i < kLightTheme.series.size(); ++i)
    s += fmt::format(
        ".c{0} {{ stroke: var(--c{0}); }} :is(circle, path).c{0} {{ fill: var(--c{0}); }}\n", i);
  return s;
}

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
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}<script>{}</script>\n"
      "</body>\n</html>\n",
      escape_html(generator), escape_html(title), page_style(), body, page_script());
}

bool is_page_from(const std::string& path, const std::string& generator) {
  constexpr std::streamsize kHead = 1024;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // reading a pipe would block
  std::ifstream in(path, std::ios::binary);
  std::string head(kHead, '\0');
  in.read(head.data(), kHead);
  head.resize(static_cast<size_t>(in.gcount()));
  return head.starts_with("<!doctype html>") &&
         head.find(fmt::format("<meta name=\"generator\" content=\"{}\">", generator)) !=
             std::string::npos;
}

Bitmap enlarged(const Bitmap& b, int64_t scale) {
  Bitmap large{b.height * scale, b.width * scale, {}};
  for (int64_t y = 0; y < large.height; ++y)
    for (int64_t x = 0; x < large.width; ++x) {
      const uint8_t* pixel = b.row(y / scale) + 3 * (x / scale);
      large.rgb.insert(large.rgb.end(), pixel, pixel + 3);
    }
  return large;
}

std::string png_url(const Bitmap& bitmap) {
  return "data:image/png;base64," + base64(encode_png(bitmap));
}

std::string html_image(const Bitmap& bitmap, int scale, const std::string& description) {
  return fmt::format("<img width=\"{}\" height=\"{}\" alt=\"{}\" src=\"{}\">", bitmap.width * scale,
                     bitmap.height * scale, escape_html(description), png_url(bitmap));
}

std::string html_zoom(const std::string& picture, const std::string& id,
                      const std::string& caption) {
  // No element has the id "close", so this link only ends the zoom; the page does not scroll.
  return fmt::format(
      "<a class=\"zoom\" id=\"{0}\" href=\"#{0}\" title=\"{1}\">{2}</a>"
      "<a class=\"close\" href=\"#close\" aria-label=\"close\"></a>",
      escape_html(id), escape_html(caption), picture);
}

std::string html_row(const std::vector<std::string>& texts, const char* tag,
                     const std::string& kind) {
  std::string s = fmt::format("<tr{}>", class_of(kind));
  for (const std::string& text : texts) s += fmt::format("<{0}>{1}</{0}>", tag, escape_html(text));
  return s + "</tr>\n";
}

std::string html_table(const std::string& rows, const std::string& kind) {
  return fmt::format("<div class=\"scroll\"><table{}>\n{}</table></div>\n", class_of(kind), rows);
}

std::string html_figure(const std::string& content, const std::string& caption) {
  return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", content,
                     escape_html(caption));
}

}  // namespace tern::apps
