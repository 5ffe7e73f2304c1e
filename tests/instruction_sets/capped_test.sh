#!/usr/bin/env bash
# Each instruction set that the machine has can be the best that our kernels use.
#   capped_test.sh LIST CAP
set -euo pipefail
list=$1 cap=$2
sets=$("$list")
[[ -n $sets ]]
best=$(head -n 1 <<<"$sets")
[[ $("$list" --chosen) == "$best" ]] || { echo "without a cap it is not $best"; exit 1; }
for set in $sets; do
  chosen=$(LD_PRELOAD=$cap TEST_INSTRUCTION_SET=$set "$list" --chosen)
  echo "capped at $set: $chosen"
  [[ $chosen == "$set" ]]
done
if LD_PRELOAD=$cap TEST_INSTRUCTION_SET=MMX "$list" --chosen; then
  echo "a set that does not exist was accepted"
  exit 1
fi
