#!/usr/bin/env bash
# commands_page.sh [BUILD]: writes docs/commands.md, the --help of all programs as they are built in
# BUILD (default: build). Call it after you change a flag or a help text; a test compares them.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
page=docs/commands.md
trap 'rm -f "$page.tmp"' EXIT
{
  sed '/^## /,$d' "$page"
  for program in train_cifar translate lm ntm tern; do
    "${1:-build}/apps/$program" --print-help
  done
} >"$page.tmp"
mv "$page.tmp" "$page"
