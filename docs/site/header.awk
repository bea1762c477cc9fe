# Shows a public header to Doxygen as a page: a group named after the file, inside of its room's. The
# prose at the top is the page's text, "// ---- X ----" begins a section. In prose, indented
# lines behind an empty line or a colon are code. Namespaces called detail are left out.
function escaped(s,  part, n, i, out) {  # outside of backticks, < @ \ and # mean themselves
  n = split(s, part, "`")
  for (i = 1; i <= n; ++i) {
    if (i % 2) { gsub(/[<@\\#]/, "\\\\&", part[i]); gsub(/ al\. /, " al.\\ ", part[i]) }
    out = out (i > 1 ? "`" : "") part[i]
  }
  return out
}
function prose(line) {
  if (!code && line ~ /^  / && (last == "" || last ~ /^[^- ].*:$/)) {
    code = 1
    held = held "/// ~~~{.cpp}\n"
  }
  if (line ~ /^[^ ]/) end_code()
  held = held "/// " (code ? substr(line, 3) : escaped(line)) "\n"
  last = line; talking = 1
}
function end_code() { if (code) held = held "/// ~~~\n"; code = 0 }
function begin_section() { printf "\n/// @name %s\n%s/// @{\n\n", section, held; held = "" }
function end_section() { if (section) print "/// @}"; section = "" }
function end_enum() { if (enum && /; *(\/\/.*)?$/) { enum = 0; begin_section() } }
FNR == 1 {
  file = FILENAME; sub("^" ENVIRON["PWD"] "/", "", file)
  group = file; gsub(/[^A-Za-z0-9]/, "_", group)
  room = file; sub(/\/[^\/]*$/, "", room); gsub(/\//, "_", room)
  print "/// @defgroup " group " " file "\n/// @ingroup " room "\n///"
  intro = 1
}
(intro || heading) && /^\/\/( |$)/ { prose(substr($0, 4)); next }
heading { end_code(); begin_section(); heading = 0; last = "" }
!/^ *\/\/\// {  # the end of a comment
  if (talking) end_code()
  if (/^enum/ && section) { enum = 1; print "/// @}" }  # Doxygen lists sections with an enum first
  printf "%s", held
  held = last = ""; talking = intro = 0
}
/^namespace ([a-z:]+::)?detail(::[a-z]+)? \{/ { hidden = NR; hidden_end = "}  // namespace " $2 }
hidden { if ($0 == hidden_end || $0 == "}" && NR == hidden + 2) hidden = 0; print ""; next }
/^namespace [a-z:]+ \{/ && !space { space = $2; print; next }
!space { print ""; next }
!inside && !/^((class|struct) [A-Za-z]+;|\}|)$/ {
  print "/// @addtogroup " group "\n/// @{\n"
  inside = 1
}
/^\}  \/\/ namespace / { end_section() }
$0 == "}  // namespace " space || !inside && $0 == "}" {
  if (inside) print "/// @}"
  inside = 0; space = ""
}
/^\/\/ ---- / {
  end_section()
  gsub(/^\/\/ -+ ?| ?-+$/, "")
  section = escaped($0); heading = 1; next
}
/^ *\/\/\// { sub(/^ *\/\/\/ ?/, ""); prose($0); next }
# Doxygen leaves out the defaults of members in its tables of simple structs.
/^  [A-Za-z][^()]* = [^{]/ && !/^  (static|using|constexpr) / && (at = index($0, ";")) {
  value = substr($0, 3, at - 3)
  if (value ~ / = [^,]*, [a-z_]+ = /) sub(/^[^ ]+ /, "", value); else sub(/.* = /, "", value)
  comment = substr($0, at + 1); sub(/^ *\/\/\/< /, " ", comment)
  if (comment ~ /^ *\/\//) comment = ""
  $0 = substr($0, 1, at) "  ///< (default `" value "`)" comment
}
(at = index($0, "///<")) { $0 = substr($0, 1, at + 3) escaped(substr($0, at + 4)) }
{ print; end_enum() }
