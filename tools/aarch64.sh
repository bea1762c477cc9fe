#!/usr/bin/env bash
# aarch64.sh check: compiles core's vector code for aarch64, with this machine's headers.
# aarch64.sh FOLDER TARGET...: makes a folder of Debian's arm64 libraries, cross compiles targets of tern's build
# (tern, test_core, ...) into FOLDER/build, and says how to run them in qemu.
# Needs no root, and on Debian x86-64 the packages ninja-build, qemu-user and g++-aarch64-linux-gnu.
set -euo pipefail
root=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/..")
compiler=aarch64-linux-gnu-g++

if [[ ${1:?aarch64.sh: say check, or name a folder for the build} == check ]]; then
  include=$(mktemp -d)
  trap 'rm -rf "$include"' EXIT
  ln -s "$root" "$include/tern"
  cd "$root"
  find core/base core/kernels -name '*.cpp' -print0 |
    xargs -0 -n 1 -P "$(nproc)" "$compiler" -std=c++20 -O1 -fopenmp -ffp-contract=off -Wall -Wextra -Werror \
      -I"$include" -idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu \
      -idirafter /usr/include/kissfft -c -o /dev/null
  exit
fi

: "${2:?aarch64.sh: name a target after the folder}"
mkdir -p "$1"
work=$(readlink -f "$1")
shift
libraries=(libc6-dev libstdc++6 libgomp1 libopenblas-openmp-dev liblapack3 libfmt-dev nlohmann-json3-dev
  libutf8proc-dev libkissfft-dev libpng-dev libjpeg-dev zlib1g-dev doctest-dev)

# The sysroot: Debian's packages, unpacked without their scripts.
if [[ ! -e $work/sysroot/complete ]]; then
  apt=$work/apt
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial} "$work/sysroot"
  : >"$apt/status"
  as_arm64=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt/state"
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o Debug::NoLocking=1
    -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=0)
  "${as_arm64[@]}" update
  "${as_arm64[@]}" install -y --download-only "${libraries[@]}"
  for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$work/sysroot"; done
  find "$work/sysroot" -lname '/*' | while read -r link; do
    ln -sfn "$work/sysroot$(readlink "$link")" "$link"
  done
  touch "$work/sysroot/complete"
fi

cmake -S "$root" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=-Werror \
  -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake" -DCMAKE_SYSROOT="$work/sysroot" -DTERN_MPI=OFF
cmake --build "$work/build" --target "$@"
echo "to run: qemu-aarch64 -cpu max -L $work/sysroot $work/build/PROGRAM"
