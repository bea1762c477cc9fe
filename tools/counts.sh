#!/usr/bin/env bash
# counts.sh [COMMIT...]: figures of the source as a table, one column per commit (default: the last
# commit): lines without blanks and comments, sizes of folders, repeated definitions, hard words.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
(($#)) || set -- HEAD

rooms=(core nn onnx optim data train dist decode models pretrained apps bench tests)

# lines FOLDER: lines of C++ that hold more than a comment.
lines() {
  sources "$1" | xargs -r cat | grep -cvE '^[[:space:]]*(//.*)?$' || true
}
sources() { find "$1" -name '*.cpp' -o -name '*.h'; }
comments() { sources . | xargs -r grep -hE '^[[:space:]]*//' || true; }
# files PATTERN: the number of source files with a line that matches.
hits() { { sources . | xargs -r grep -hE "$1" || true; } | wc -l; }
in_tests() { { sources tests | xargs -r grep -hE "$1" || true; } | wc -l; }
largest_folder() {
  sources . | sed 's|/[^/]*$||' | sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 " " $2 }'
}

count() {
  local room file
  for room in "${rooms[@]}"; do echo "lines of $room|$(lines "$room")"; done
  echo "lines of libraries, programs and benchmarks|$(for room in "${rooms[@]:0:12}"; do
    lines "$room"
  done | awk '{ n += $1 } END { print n }')"
  echo "files of the largest folder|$(largest_folder)"
  echo "source files without a first comment|$(sources . | while read -r file; do
    head -1 "$file" | grep -q '^//' || echo "$file"
  done | wc -l)"
  echo "comments that begin with a preposition|$(comments |
    grep -cE '^[[:space:]]*//+<? (Of|For|From|By|To|With|As|In|At) (who|what|the|those|a|which)\b' || true)"
  local word
  for word in alone nobody 'is none' 'at a time' 'what is'; do
    echo "comments with \"$word\"|$(comments | grep -ciE "\\b$word\\b" || true)"
  done
  echo "open-coded ceilings|$(hits '\+ [A-Za-z0-9_]+ - 1\) / ')"
  echo "std::function members of Feed|$({ sed -nE '/^(struct|class) Feed/,/^};/p' train/loop.h | grep -c 'std::function'; } || true)"
  echo "definitions of infinity in tests|$(in_tests 'double k?[iI]nf\b.*=|float k?[iI]nf\b.*=')"
  echo "definitions of NaN in tests|$(in_tests '(double|float) k?(NaN|Nan|nan)\b.*=')"
  echo "calls of set_num_threads in tests|$(in_tests 'set_num_threads\(')"
  echo "test cases|$(in_tests '^TEST_CASE')"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
columns=()
for commit; do
  mkdir "$scratch/tree"
  git archive "$commit" | tar -x -C "$scratch/tree"
  (cd "$scratch/tree" && count) >"$scratch/$commit"
  rm -rf "$scratch/tree"
  columns+=("$scratch/$commit")
done
{
  printf 'count'
  printf '|%s' "$@"
  echo
  cut -d'|' -f1 "${columns[0]}" | paste -d'|' - $(for c in "${columns[@]}"; do
    cut -d'|' -f2 "$c" >"$c.column"
    echo "$c.column"
  done)
} | column -t -s'|'
