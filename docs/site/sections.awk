# Gives the sections of a header's page (Doxygen's member groups, from "// ---- X ----") anchors, and
# lists them at the top of the page: awk -f sections.awk PAGE.html PAGE.html >NEW. With -v headings=1
# it prints them as headings of Markdown, for search.awk.
function slug(s) { s = tolower(s); gsub(/&[a-z]+;/, "", s); gsub(/[^a-z0-9]+/, "-", s); return s }
function section(line) {
  if (line !~ /<tr class="heading">.*<h2 class="groupheader">[^<]/) return ""
  sub(/.*<h2 class="groupheader">/, "", line); sub(/<\/h2>.*/, "", line)
  return line
}
FNR == 1 { ++pass }
pass == 1 {
  name = section($0)
  if (/<title>/) { title = $0; sub(/.*<title>[^:]*: /, "", title); sub(/<\/title>.*/, "", title) }
  if (name == "" || name in seen) next
  seen[name] = 1
  names[++count] = name
  next
}
pass == 2 && headings {
  print "# " title
  for (i = 1; i <= count; ++i) print "## " names[i] " {#" slug(names[i]) "}"
  exit
}
{
  name = section($0)
  if (name != "") sub(/<h2 class="groupheader">/, "<h2 class=\"groupheader\" id=\"" slug(name) "\">")
  print
  if (/^<div class="contents">/ && count > 1) {
    printf "<p class=\"sections\">Functions: "
    for (i = 1; i <= count; ++i)
      printf "%s<a href=\"#%s\">%s</a>", (i > 1 ? " &#124; " : ""), slug(names[i]), names[i]
    print "</p>"
  }
}
