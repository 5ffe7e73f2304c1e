#!/usr/bin/env bash
# A wrong call does not compile, and the compiler says why.
#   refused.sh SENTENCE [ROW...] -- COMPILER...      SENTENCE: a regular expression; ROW: of tests/features, which this covers
set -euo pipefail
. "$(dirname "$0")/../covers.sh"
sentence=$1
shift
rows=()
while [[ $1 != -- ]]; do
  rows+=("$1")
  shift
done
shift

if output=$("$@" 2>&1); then
  echo "it compiles"
  exit 1
fi
if ! grep --quiet --extended-regexp "(static assertion failed|#error).*unisono: .*$sentence" <<<"$output"; then
  printf 'expected "%s" in\n%s\n' "$sentence" "$output"
  exit 1
fi
covers "${rows[@]}"
