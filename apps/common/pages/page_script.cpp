// The script of report pages: a crosshair with values on charts, and tables that a click sorts. It
// reads what the page already shows, so that a page without scripts loses only these two.
#include "tern/apps/common/pages/html.h"

namespace tern::apps {
namespace {

// Each line of a chart has its points on a sheet from 0 to 1000 (points="x,y ...") and their texts
// (data-values="x:y ..."). Texts of users enter the page as textContent, never as HTML.
constexpr std::string_view kCrosshair = R"js(
function element(tag, kind, text = "") {
  const e = document.createElement(tag);
  e.className = kind;
  e.textContent = text;
  return e;
}

function linesOf(sheet) {
  return [...sheet.querySelectorAll("polyline[data-values]")].reverse().map(line => ({
    name: line.dataset.name,
    color: `var(--${line.classList[0]})`,
    places: line.getAttribute("points").trim().split(" ").map(parseFloat),
    values: line.dataset.values.split(" ").map(value => value.split(":")),
  }));
}

function nearest(places, place) {
  return places.reduce(
      (best, p, i) => Math.abs(p - place) < Math.abs(places[best] - place) ? i : best, 0);
}

function addCrosshair(sheet) {
  const figure = sheet.closest("figure");
  let lines, places, at, cross, box;
  function show(index) {
    hide();
    at = Math.max(0, Math.min(index, places.length - 1));
    const area = sheet.getBoundingClientRect(), outer = figure.getBoundingClientRect();
    const x = area.left - outer.left + places[at] / 1000 * area.width;
    cross = element("div", "cross");
    cross.style.cssText = `left:${x}px;top:${area.top - outer.top}px;height:${area.height}px`;
    box = element("div", "values");
    box.setAttribute("role", "status");
    let shown;
    for (const line of lines) {
      const i = nearest(line.places, places[at]), [x, y] = line.values[i];
      if (line.places[i] === places[at]) shown ??= x;
    }
    box.append(element("div", "", `${sheet.dataset.x} ${shown}`));
    for (const line of lines) {
      const [x, y] = line.values[nearest(line.places, places[at])];
      const row = element("div", "", `${line.name}: ${y}${x === shown ? "" : ` (at ${x})`}`);
      const mark = element("b", "", "\u2014 ");
      mark.style.color = line.color;
      row.prepend(mark);
      box.append(row);
    }
    box.style.top = `${area.top - outer.top}px`;
    box.style[places[at] > 500 ? "right" : "left"] =
        `${(places[at] > 500 ? outer.width - x : x) + 8}px`;
    figure.append(cross, box);
  }
  function hide() {
    cross?.remove();
    box?.remove();
  }
  function read() {
    lines ??= linesOf(sheet);
    places ??= [...new Set(lines.flatMap(line => line.places))].sort((a, b) => a - b);
    return places.length > 0;
  }
  sheet.addEventListener("pointermove", event => {
    const area = sheet.getBoundingClientRect();
    if (read()) show(nearest(places, (event.clientX - area.left) / area.width * 1000));
  });
  sheet.addEventListener("pointerleave", hide);
  sheet.tabIndex = 0;
  sheet.addEventListener("focus", () => read() && sheet.matches(":focus-visible") && show(0));
  sheet.addEventListener("blur", hide);
  sheet.addEventListener("keydown", event => {
    if (event.key === "Escape") return hide();
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0,
                End: Infinity}[event.key];
    if (to === undefined || !read()) return;
    event.preventDefault();
    show(to || 0);
  });
}
document.querySelectorAll(".chart > svg").forEach(addCrosshair);
)js";

// The number that a cell begins with: 62.5%, 1.26M, 2,500 tokens/s, 1:02:03, "3 of 10". A column of
// which a cell has none is sorted as text; "-" is last.
constexpr std::string_view kSort = R"js(
function numberOf(text) {
  const [, time] = text.match(/^(\d+(?::\d\d)+)$/) ?? [];
  if (time) return time.split(":").reduce((sum, part) => 60 * sum + Number(part), 0);
  const number = /^([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)([kMG%]?)(?:\s.*)?$/;
  const [, digits, unit] = text.match(number) ?? [];
  if (!digits) return NaN;
  return Number(digits.replaceAll(",", "")) * ({k: 1e3, M: 1e6, G: 1e9}[unit] ?? 1);
}

function sortBy(table, column) {
  const [head, ...rows] = table.rows, heading = head.cells[column];
  const text = row => row.cells[column].textContent;
  const there = rows.filter(row => text(row) !== "-");
  const numbers = there.every(row => !isNaN(numberOf(text(row))));
  const compare = numbers ? (a, b) => numberOf(text(a)) - numberOf(text(b))
                          : (a, b) => text(a).localeCompare(text(b), "en", {numeric: true});
  there.sort(compare);
  const marked = there.find(row => row.cells[column].classList.contains("best"));
  const bestLast = marked && compare(marked, there[0]) > 0;  // the best one comes first
  const before = heading.getAttribute("aria-sort");
  const down = before ? before === "ascending" : bestLast;
  if (down) there.reverse();
  for (const cell of head.cells) cell.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  table.tBodies[0].append(...there, ...rows.filter(row => text(row) === "-"));
}

for (const table of document.querySelectorAll("table.sortable"))
  [...table.rows[0].cells].forEach((heading, column) => {
    const button = element("button", "", heading.textContent);
    button.addEventListener("click", () => sortBy(table, column));
    heading.replaceChildren(button);
  });
)js";

}  // namespace

std::string page_script() { return std::string(kCrosshair).append(kSort); }

}  // namespace tern::apps
