# Adds a page of the guide to the index of Doxygen's search box, which knows names of the API alone.
# Headings, first cells of tables and flags come first, each under all its words. Other words come last, with
# the heading above them. Reads the output of page.awk:
#   awk -v page=howto -v folder=SITE/search -f search.awk
function encoded(text,  out, i, c) {  # as search.js does
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    out = out (c ~ /[a-z0-9]/ ? c : sprintf("_%02x", code[c]))
  }
  return out
}
function plain(text) {
  gsub(/\]\([^)]*\)|[`*\[\]]|<[^>]*>|^[ |]+|[ |]+$/, "", text)
  return text
}
function add(text, shown, front,  rest, word, key, at) {
  gsub(/['\\]/, "\\\\&", shown)
  rest = tolower(text)
  for (; match(rest, /[a-z][a-z0-9_]+/); rest = substr(rest, RSTART + RLENGTH)) {
    word = substr(rest, RSTART, RLENGTH)
    at = index(letters, substr(word, 1, 1))
    if (!at || index(common, " " word " ") || !front && length(word) < 3) continue
    key = encoded(front ? substr(rest, RSTART) : word)
    if (front ? known[anchor shown key]++ : seen[anchor, word]++ || seen[anchor heading, word])
      continue
    if (front) seen[anchor shown, word] = 1
    printf "searchData.%s(['%s_%s_%d',['%s',['../%s.html%s',1,'%s']]]);\n",
      front ? "unshift" : "push", key, page, ++count, shown, page, anchor, title >> \
      sprintf("%s/all_%x.js", folder, at - 1)
  }
}
BEGIN {
  common = " a all an and are as at be by can do for from has have how in is it its my no not of on" \
    " one or so than that the them then they this to what when which with you your "
  for (i = 32; i < 127; ++i) code[sprintf("%c", i)] = i
  while ((getline line < (folder "/searchdata.js")) > 0)
    if (letters == "" && line ~ /^  0:/) { gsub(/^  0: "|",?$/, "", line); letters = line }
}
/^ *```/ { fence = !fence; next }
# A flag in what --help says; build.sh gives its line this anchor.
fence && page == "commands" && match($0, /^  --[a-z][a-z0-9-]*/) {
  flag = substr($0, 3, RLENGTH - 2)
  section = anchor; whole = title
  anchor = anchor flag; title = heading
  add(flag, flag, 1)
  anchor = section; title = whole
}
fence { next }
/^@anchor / { anchor = $2; next }
/^#+ / {
  heading = $0; sub(/^#+ /, "", heading)
  if (match(heading, / \{#[^}]*\}$/)) {
    anchor = substr(heading, RSTART + 3, RLENGTH - 4)
    heading = substr(heading, 1, RSTART - 1)
  }
  heading = plain(heading)
  anchor = /^# / ? "" : "#" anchor
  if (/^# /) title = heading; else add(heading, heading, 1)
  next
}
# "<!-- search: gradient clipping, ... -->": what people call what stands below the heading.
/^<!-- search: / {
  sub(/^<!-- search: /, ""); sub(/ *-->.*/, "")
  for (n = split($0, term, /, */); n > 0; --n) add(term[n], heading, 1)
  next
}
/^\|/ && !/^\|[-| :]*$/ {
  split($0, cell, /[|]/)
  if (table && length(cell[2]) < 50)
    add(plain(cell[2]), plain(cell[2]), page !~ /^(performance|results)$/)
}
{ table = /^\|/; add(plain($0), heading, 0) }
