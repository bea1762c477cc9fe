# Adds the headings of a page of the guide and the first cells of its tables to Doxygen's index of the
# search box, by each of their words. Reads what page.awk made of the page:
#   awk -v page=howto -v folder=SITE/search -f search.awk
function encoded(text,  out, i, c) {  # as search.js does
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    out = out (c ~ /[a-z0-9]/ ? c : sprintf("_%02x", code[c]))
  }
  return out
}
function add(text,  shown, rest, word, seen, file) {
  gsub(/\]\([^)]*\)|[`*\[\]]|<[^>]*>|^ +| +$/, "", text)
  shown = text; gsub(/['\\]/, "\\\\&", shown)
  for (rest = tolower(text); match(rest, /[a-z][a-z0-9_+]+/); rest = substr(rest, RSTART + RLENGTH)) {
    word = substr(rest, RSTART, RLENGTH)
    if (!index(letters, substr(word, 1, 1)) || index(" a an and by do for from how in is it my of on or the to what with your ", " " word " ") || seen[word]++) continue
    file = sprintf("%s/all_%x.js", folder, index(letters, substr(word, 1, 1)) - 1)
    printf "searchData.unshift(['%s_%s_%d',['%s',['../%s',1,'%s']]]);\n", encoded(substr(rest, RSTART)), page, ++count, shown, page ".html" anchor, title >> file
  }
}
BEGIN {
  for (i = 32; i < 127; ++i) code[sprintf("%c", i)] = i
  while ((getline line < (folder "/searchdata.js")) > 0)
    if (letters == "" && line ~ /^  0:/) { gsub(/^  0: "|",?$/, "", line); letters = line }
}
/^ *```/ { fence = !fence }
fence { next }
/^@anchor / { anchor = $2 }
/^#+ / {
  text = $0; sub(/^#+ /, "", text)
  if (match(text, / \{#[^}]*\}$/)) { anchor = substr(text, RSTART + 3, RLENGTH - 4); text = substr(text, 1, RSTART - 1) }
  sub(/^#*/, "#", anchor)
  if (/^# /) anchor = ""
  if (/^# /) title = text; else add(text)
}
/^\|/ && previous ~ /^\|/ && !/^\|[-| :]*$/ { split($0, cell, /[|]/); if (length(cell[2]) < 50) add(cell[2]) }
{ previous = $0 }
