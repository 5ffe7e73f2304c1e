#!/usr/bin/env bash
#   01_hello_test.sh PROGRAM UNISONO
set -euo pipefail
program=$1 unisono=$2
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

expect() {  # expect <text> <output>
  if [[ "$2" != *"$1"* ]]; then
    printf 'expected "%s" in\n%s\n' "$1" "$2"
    exit 1
  fi
}

alone=$("$program")
expect "hello from rank 0 of 1" "$alone"
expect "sum of ranks 0, of their squares 0, largest value 0" "$alone"

launched=$("$unisono" run -n 4 -- "$program")
for rank in 0 1 2 3; do expect "hello from rank $rank of 4" "$launched"; done
expect "sum of ranks 6, of their squares 14, largest value 30" "$launched"
