#!/usr/bin/env bash
# Compiles newer_test.c with scripts/package/newer.c and runs it.
#   newer_test.sh SOURCE_FOLDER COMPILER
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$2" -O1 -Wall -Wextra -Werror "$1/tests/package/newer_test.c" "$1/scripts/package/newer.c" -o "$work/test" -pthread
"$work/test"
