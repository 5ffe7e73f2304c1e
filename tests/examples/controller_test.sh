#!/usr/bin/env bash
# Runs an example of a controller, with workers that it starts and with those of a launcher, and compares what it says.
#   controller_test.sh EXPECTED PROGRAM UNISONO
set -euo pipefail
expected=$1 program=$2 unisono=$3
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE UNISONO_TERMINAL UNISONO_BACKEND

diff "$expected" <("$program" || echo "exit code $?")
diff <(sed 's/^/[0] /' "$expected") <("$unisono" run -n 4 -- "$program" || echo "exit code $?")
