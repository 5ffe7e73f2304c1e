#!/usr/bin/env bash
# Each instruction set that the machine has can be the best that our kernels use, and none of it takes a library.
#   capped_test.sh LIST
set -euo pipefail
list=$1
sets=$("$list")
[[ -n $sets ]]
best=$(head -n 1 <<<"$sets")
[[ $("$list" --chosen) == "$best" ]] || { echo "without a cap it is not $best"; exit 1; }
for set in $sets; do
  chosen=$(UNISONO_INSTRUCTION_SET=$set "$list" --chosen)
  echo "capped at $set: $chosen"
  [[ $chosen == "$set" ]]
done
[[ $(UNISONO_INSTRUCTION_SET=MMX "$list" --chosen) == "$best" ]] || { echo "a set that does not exist is a cap"; exit 1; }
# Highway's library measures its timer whenever it is loaded, which takes longer than all else that a process needs to start.
if ldd "$list" | grep libhwy; then echo "the program loads Highway's library"; exit 1; fi
