# Shows a page of Markdown to Doxygen. Names the page and its headings by GitHub's rule: "Freeze
# layers" in howto.md is howto-freeze-layers. Turns links to files into links to what the site has
# of them: pages, headers, rooms, programs.
function page_of(file) {
  sub(/^.*\//, "", file); sub(/\.md$/, "", file)
  return file == "README" ? "index" : tolower(file)
}
function slug(s) {
  gsub(/\]\([^)]*\)/, "", s)
  s = tolower(s); gsub(/[^a-z0-9 _-]/, "", s); gsub(/ /, "-", s)
  return s
}
function group_of(file) { gsub(/[^A-Za-z0-9]/, "__", file); return "group__" file ".html" }
function target(link,  file, anchor) {
  if (link ~ /^[a-z]+:/) return link
  anchor = file = link; sub(/^[^#]*#?/, "", anchor); sub(/#.*/, "", file)
  if (anchor) anchor = "#" (file ? page_of(file) : page) "-" anchor
  if (file == "") return anchor
  while (file ~ /^\.\.\//) sub(/^\.\.\//, "", file)
  if (file ~ /\.md$/) return page_of(file) ".html" anchor
  if (file ~ /\.(png|svg)$/) return link
  if (file ~ /^(core|nn|optim|data|train|models|decode|dist|onnx|pretrained|tern\.h)/) return group_of(file)
  if (file ~ /^jobs\//) file = "docs/" file
  if (file ~ /\.[a-z]+$/) {
    gsub(/\//, "_2", file); gsub(/\./, "_8", file)
    return file "-example.html"
  }
  return "examples.html"
}
FNR == 1 { page = page_of(FILENAME) }
/^ *```/ { code = !code; print; next }
code { print; next }
/^#+ / {
  if (/^## /) deep = 1
  if (!deep) sub(/^###+/, "##")  # Doxygen wants no level left out
  name = $0; sub(/^#+ /, "", name); name = slug(name)
  if (seen[name]++) name = name "-" seen[name] - 1
  if (/^# /) name = page; else name = page "-" name
  gsub(/`/, ""); gsub(/--/, "\\--")  # Doxygen shows code in a heading as "<tt>"
  if (page != "index") print $0 " {#" name "}"
  else print (/^# / ? "" : "@anchor " name "\n\n") $0  # a section would stand in the navigation
  next
}
{
  out = ""
  while (match($0, /\]\([^)]+\)/)) {
    out = out substr($0, 1, RSTART + 1) target(substr($0, RSTART + 2, RLENGTH - 3)) ")"
    $0 = substr($0, RSTART + RLENGTH)
  }
  print out $0
}
