#!/usr/bin/env bash
# Runs a small example alone, and on three ranks where it is meant for that, and compares what it says with what stands beside its source.
#   example_test.sh SOURCE_FOLDER PROGRAM UNISONO
set -euo pipefail
folder=$1 program=$2 unisono=$3
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE UNISONO_TERMINAL UNISONO_BACKEND

diff "$folder/alone.txt" <("$program" || echo "exit code $?")
if [[ -f "$folder/three.txt" ]]; then
  # The ranks' lines come in any order.
  diff "$folder/three.txt" <({ "$unisono" run -n 3 -- "$program" || echo "exit code $?"; } | LC_ALL=C sort)
fi
