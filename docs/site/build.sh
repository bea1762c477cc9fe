#!/usr/bin/env bash
# build.sh OUT: makes the site in OUT/html from the public headers, the documents and the programs
# that the tests compile. Fails on a warning from Doxygen and on a link inside that leads nowhere.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
root=$PWD out=$1
rm -rf "$out/html"
mkdir -p "$out"

# The headers for users, without those that only include others.
headers=$(find */ -name '*.h' ! -path 'apps/*' ! -path 'bench/*' ! -path 'tests/*' ! -path 'packaging/*' \
  ! -path 'build*' |
  LC_ALL=C sort | xargs grep -LE '^// .*Inside of [a-z]+ only|^// Everything of')

for room in $(xargs -n 1 dirname <<<"$headers" | sort -u); do
  grep -q "@defgroup ${room//\//_} " docs/site/rooms.dox ||
    { echo "docs/site/rooms.dox lacks $room"; exit 1; }
done

# Guide pages in the order in which a newcomer reads them, then all others.
guide=
for page in tutorial commands pytorch howto sharing faq choosing models results performance \
  several_machines architecture; do
  guide+=" docs/$page.md"
done
for page in docs/*.md CHANGELOG.md CONTRIBUTING.md; do
  [[ ! -f $page || " $guide " == *" $page "* ]] || guide+=" $page"
done

# Examples for users, and what else the documents link to.
programs=$({
  find tests/consumer tests/readme -name '*.cpp' -o -path 'tests/*/tutorial/*.h'
  grep -ohE '\]\((\.\./)*(apps|bench|tests|tools)/[^)#]*\.[a-z]+\)' README.md $guide |
    sed -E 's,^\]\((\.\./)*,,; s,\)$,,'
  find docs/jobs -name '*.*'
} | LC_ALL=C sort -u)
{
  echo '/** @page guide Guide'
  for page in $guide; do
    page=${page##*/} page=${page%.md}
    echo "- @subpage ${page,,}"
  done
  echo '*/'
  for program in $programs; do
    echo "/// @example $program"
    sed '/^\/\//!Q; s,^//,///,' "$program"
    echo
  done
} >"$out/site.dox"

{
  cat docs/site/Doxyfile
  echo "INPUT = README.md docs/site/rooms.dox $out/site.dox" $guide $headers
  echo "EXAMPLE_PATH = ."
  echo "IMAGE_PATH = docs/pictures"
  echo "OUTPUT_DIRECTORY = $out"
  echo "PROJECT_NUMBER = $(sed -n 's/.*kVersion = "\([0-9.]*\)".*/\1/p' version.h)"
  echo "WARN_AS_ERROR = FAIL_ON_WARNINGS"
} | doxygen -

cd "$out/html"
# Doxygen 1.9.4 also links to lists of classes that it has shown inline instead.
sed -i '/<a href="#nested-classes">/d' $(grep -L 'name="nested-classes"' ./*.html)
sed -i '/namespacetern[^"]*\.html#group__/d' search/*.js
# Doxygen links each word of code to anything of that name. What stays are calls of ops and names
# that say where they belong.
sed -Ei -e 's,(^|[^.])<a class="code hl_function" (href="group__core__ops__[^>]*>[a-z_0-9]+</a>\(),\1<a class="kept" \2,g' \
  -e 's,<a class="code [^>]*>((std::)?[a-z_0-9]+)</a>,\1,g' -e 's,<a class="kept",<a class="code hl_function",g' \
  -e 's,<a class="el"[^>]*>([a-z]\.[a-z_]+\(\))</a>,\1,g' ./*.html
# What Doxygen shows as <linear.h> is included as <tern/nn/linear.h>; and "al.\ 2024" keeps its
# backslash outside of the first sentence.
sed -Ei -e 's,(<p><code>#include &lt;(<a [^>]*>)?)([a-z0-9_/]+\.h<?),\1tern/\3,' -e 's, al\.\\ , al. ,g' ./*.html
# Sources are shown as they are, but the lines that Doxygen knows are those of the filter.
sed -Ei -e 's,Definition at line <a [^>]*>[0-9]+</a> of file,Source:,' \
  -e 's,(_source\.html)#l[0-9]+,\1,g' ./*.html
sed -Ei -e 's,<a class="code [^>]*>([^<]*)</a>,\1,g' -e '/<div class="ttc"/d' ./*_source.html
# The search strips the dashes of a flag, as the index does.
sed -i 's,\.value\.replace(/^\? +/g\?\, ""),&.replace(/^-+/\, ""),' search/search.js
[[ $(grep -c 'replace(/^-+/' search/search.js) == 3 ]] || { echo "search.js is another"; exit 1; }
while read -r header; do
  [[ $header == tern/* && -f $root/${header#tern/} ]] ||
    { echo "a page says #include <$header>, and there is no such header"; exit 1; }
done < <(sed -En 's,.*<p><code>#include &lt;(<a [^>]*>)?([^<&]*).*,\2,p' ./*.html | sort -u)
! grep -nF 'al.\' ./*.html || exit 1
# Of functions of one name, the definitions that tests compare with come last.
sed -Ei "s~(\['\.\./namespacetern_1_1composed\.html[^]]*\]),((\['\.\./[^]]*\],?)+)\]\]~\2,\1]]~" \
  search/*.js
for page in $(grep -l '<tr class="heading">.*<h2 class="groupheader">[^<]' group__*.html); do
  awk -f "$root/docs/site/sections.awk" "$page" "$page" >sections && mv sections "$page"
  awk -v headings=1 -f "$root/docs/site/sections.awk" "$page" "$page" |
    awk -v page="${page%.html}" -v folder=search -f "$root/docs/site/search.awk"
done
# An anchor for each flag, as search.awk names it.
awk 'match($0, /id="commands-[^"]*"/) { section = substr($0, RSTART + 4, RLENGTH - 5) }
  match($0, /<div class="line">  --[a-z][a-z0-9-]*/) {
    flag = substr($0, RSTART + 20, RLENGTH - 20); sub(/ +/, "", flag)
    if (!seen[section flag]++) sub(/<div class="line"/, "& id=\"" section flag "\"")
  } { print }' commands.html >flags && mv flags commands.html
for page in README.md $guide; do
  name=${page##*/} name=${name%.md} name=${name,,}
  awk -f "$root/docs/site/page.awk" "$root/$page" |
    awk -v page="${name/readme/index}" -v folder=search -f "$root/docs/site/search.awk"
done
# What people search for, and under which other words it stands.
for words in 'gradient clipping' 'early stopping' 'label smoothing' hold-out resume predict quantize; do
  key=$(sed 's/ /_20/g; s/-/_2d/g' <<<"$words")
  grep -q "\['$key" search/all_*.js || { echo "the search finds no '$words'"; exit 1; }
done
grep -q "commands.html#commands-[^']*--resume'" search/all_*.js ||
  { echo "the search finds no flag"; exit 1; }
! grep -n '"@ref' menudata.js || exit 1
# The list of programs says what each is: the first sentence of its file.
awk -v root="$root" 'match($0, />tests\/[^<]*<\/a>/) {
  file = root "/" substr($0, RSTART + 1, RLENGTH - 5); text = ""
  while ((getline line < file) > 0 && line ~ /^\/\//) text = text substr(line, 3)
  gsub(/ al\. /, " al.~", text); sub(/[.] .*|\.$/, "", text); gsub(/~/, " ", text)
  gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text)
  if (text) $0 = substr($0, 1, RSTART + RLENGTH - 1) ":" text "</li>"
} { print }' examples.html >examples && mv examples examples.html
awk -f "$root/docs/site/links.awk" $(find . -name '*.html' -o -name '*.js' ! -name search.js \
  ! -name menu.js ! -name navtree.js | sed 's,^\./,,' | LC_ALL=C sort)
