#!/usr/bin/env bash
# configurations.sh [NAME...]: builds the program in several configurations (default: all), trains
# three small models with each, and prints a table of them. Weights are the same to the last bit in
# every configuration: a row that differs from the first one is an error.
# Compilers that are not installed are left out by name. Builds go to a temporary folder.
set -euo pipefail
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# name|compiler|flags of CMake|environment of the program
rows=(
  'g++, static|g++||'
  'g++, libtern.so|g++|-DBUILD_SHARED_LIBS=ON|'
  'g++, without MPI|g++|-DTERN_MPI=OFF|'
  'g++, -O2|g++|-DCMAKE_CXX_FLAGS_RELEASE=-O2;-DNDEBUG|'
  'g++, AVX2|g++||TERN_MAX_LEVEL=avx2'
  'g++, AVX-512|g++||TERN_MAX_LEVEL=avx512'
  'g++ 14|g++-14||'
  'clang|clang++||'
  'clang, libtern.so|clang++|-DBUILD_SHARED_LIBS=ON|'
)

# build COMPILER FLAGS FOLDER: prints the minutes it took.
build() {
  local begin=$SECONDS flags=()
  IFS=';' read -ra given <<<"$2"
  for flag in "${given[@]}"; do
    # A second word of a flag belongs to the first.
    [[ $flag == -D*=* || ${#flags[@]} -eq 0 ]] && flags+=("$flag") || flags[-1]+=" $flag"
  done
  cmake -S "$root" -B "$3" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$1" \
    -DCMAKE_CXX_FLAGS=-Werror -DTERN_TESTS=OFF -DTERN_BENCH=OFF "${flags[@]}" >"$3.log" 2>&1 &&
    cmake --build "$3" >>"$3.log" 2>&1 || { tail -20 "$3.log" >&2; return 1; }
  awk -v s=$((SECONDS - begin)) 'BEGIN { printf "%.1f", s / 60 }'
}

# weights PROGRAM COMMAND...: the start of the hash of what a short training writes.
weights() {
  local run=$work/run
  rm -rf "$run"
  "$@" --out "$run" >"$work/train.log" 2>&1 || { tail -5 "$work/train.log" >&2; return 1; }
  sha256sum "$run/model.safetensors" | cut -c1-8
}

declare -A minutes
first= failed=0
echo '| configuration | compiler | minutes | program, MB | lm | translate | ntm |'
echo '|---|---|---|---|---|---|---|'
for row in "${rows[@]}"; do
  IFS='|' read -r name compiler flags environment <<<"$row"
  (($#)) && [[ " $* " != *" $name "* ]] && continue
  command -v "$compiler" >/dev/null || { echo "$name: there is no $compiler" >&2; continue; }
  folder=$work/$(echo "$compiler$flags" | tr -c 'a-zA-Z0-9\n' _)
  [[ -n ${minutes[$folder]:-} ]] || minutes[$folder]=$(build "$compiler" "$flags" "$folder")
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
