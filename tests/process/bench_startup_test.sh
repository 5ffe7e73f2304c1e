#!/usr/bin/env bash
# What scripts/bench/startup says of one round, and what may not grow: the memory that 8 ranks share, the threads of a rank.
#   bench_startup_test.sh BENCH_STARTUP BUILD
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" --build "$2" --ranks 2 --facts 8 --rounds 1 --peers "" --json "$folder/figures.json" | tee "$folder/is"
for cell in 'unisono, true' 'unisono, initialise and finalise'; do
  grep -qE "^\| $cell \| [0-9.]+ \| [0-9.]+ \|" "$folder/is" || { echo "there is no time of: $cell"; exit 1; }
done
python3 - "$folder/figures.json" <<'END'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    (cost,) = json.load(file)["facts"]
assert cost["ranks"] == 8 and 0 < cost["shared_kib"] <= cost["reserved_kib"] < 32 * 1024, cost
assert cost["of_rank"]["threads"] == 1 and cost["of_rank"]["descriptors"] <= 20, cost
END
