#!/usr/bin/env bash
# configurations.sh [NAME...]: builds the program in several configurations (default: all), trains
# three small models with each, and prints a table of them. Weights are the same to the last bit in
# every configuration: a row that differs from the first one is an error.
# Compilers that are not installed are left out by name. Builds go to a temporary folder.
# Minutes are processor time, so that they depend neither on the number of cores nor on other work.
# With CMAKE_CXX_COMPILER_LAUNCHER=ccache they say nothing, and are left out.
set -euo pipefail
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# name|compiler|flag of CMake|environment of the program
rows=(
  'g++, static|g++||'
  'g++, libtern.so|g++|-DBUILD_SHARED_LIBS=ON|'
  'g++, without MPI|g++|-DTERN_MPI=OFF|'
  'g++, -O2|g++|-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG|'
  'g++, AVX2|g++||TERN_MAX_LEVEL=avx2'
  'g++, AVX-512|g++||TERN_MAX_LEVEL=avx512'
  'g++ 14|g++-14||'
  'clang|clang++||'
  'clang, libtern.so|clang++|-DBUILD_SHARED_LIBS=ON|'
)

# build COMPILER FLAG FOLDER: prints the minutes it took.
build() {
  local TIMEFORMAT='%U %S'
  configure_and_build() {
    cmake -S "$root" -B "$3" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$1" \
      -DCMAKE_CXX_FLAGS=-Werror -DTERN_TESTS=OFF -DTERN_BENCH=OFF ${2:+"$2"} && cmake --build "$3"
  }
  { time configure_and_build "$@" >"$3.log" 2>&1; } 2>"$3.time" || { tail -20 "$3.log" >&2; return 1; }
  [[ -n ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]] || awk '{ printf "%.1f", ($1 + $2) / 60 }' "$3.time"
}

# weights PROGRAM COMMAND...: the start of the hash of what a short training writes.
weights() {
  local run=$work/run
  rm -rf "$run"
  "$@" --out "$run" >"$work/train.log" 2>&1 || { tail -5 "$work/train.log" >&2; return 1; }
  sha256sum "$run/model.safetensors" | cut -c1-8
}

declare -A minutes
first="" failed=0
echo "$(git -C "$root" describe --always --dirty), $(sed -n 's/^model name.*: //p;T;q' /proc/cpuinfo)"
echo '| configuration | compiler | minutes | program, MB | lm | translate | ntm |'
echo '|---|---|---|---|---|---|---|'
for row in "${rows[@]}"; do
  IFS='|' read -r name compiler flag environment <<<"$row"
  (($#)) && [[ " $* " != *" $name "* ]] && continue
  command -v "$compiler" >/dev/null || { echo "$name: there is no $compiler" >&2; continue; }
  folder=$work/$(echo "$compiler$flag" | tr -c 'a-zA-Z0-9\n' _)
  [[ -v minutes[$folder] ]] || minutes[$folder]=$(build "$compiler" "$flag" "$folder")
  program=$folder/apps/tern
  hashes=$(
    [[ -z $environment ]] || export "${environment?}"
    echo "$(weights "$program" lm train --steps 20) | $(weights "$program" translate train --steps 20) |" \
      "$(weights "$program" ntm train --steps 20)"
  )
  echo "| $name | $("$compiler" -dumpfullversion 2>/dev/null || "$compiler" -dumpversion) |" \
    "${minutes[$folder]} | $(du -m "$program" | cut -f1) | $hashes |"
  first=${first:-$hashes}
  [[ $hashes == "$first" ]] || { echo "$name: other weights than in the first row" >&2; failed=1; }
done
exit $failed
