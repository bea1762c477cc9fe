# Names the links inside of a site that lead nowhere, and fails if there are any. Run it in the
# site's folder with all pages and the scripts that hold links: awk -f links.awk index.html ...
function folder_of(file) { return file ~ /\// ? substr(file, 1, match(file, /[^\/]*$/) - 1) : "" }
function note(link,  file) {
  if (link ~ /^[a-z]+:|^\/\/|^$/) return
  file = link ~ /^#/ ? FILENAME : folder_of(FILENAME) link
  while (file ~ /[^\/]+\/\.\.\//) sub(/[^\/]+\/\.\.\//, "", file)
  if (!(file link in from)) from[file (link ~ /^#/ ? link : "")] = FILENAME
}
FNR == 1 { there[FILENAME] = 1 }
{
  line = $0
  while (match(line, /(id|name|href|src)="[^"]*"|["'][^"' ]+\.html(#[^"']*)?["']/)) {
    part = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
    value = part; sub(/^[a-z]*=?["']/, "", value); sub(/["']$/, "", value)
    if (part ~ /^(id|name)=/) there[FILENAME "#" value] = 1
    else note(value)
  }
}
END {
  for (link in from)
    if (!(link in there) && system("test -e '" link "'")) {
      print from[link] ": no " link
      bad = 1
    }
  exit bad
}
