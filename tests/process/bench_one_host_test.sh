#!/usr/bin/env bash
# The tables that scripts/bench/one-host makes of runs that were kept: sorted by placement, medians, the faster peer.
#   bench_one_host_test.sh SCRIPT
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 - "$folder/runs.json" <<'PYTHON'
import json, sys

def run(flags, openmpi, mpich):
    results = [{"impl": "unisono", "bytes": 8}]
    results += [{"impl": peer, "bytes": 8, "ratio": {"median": ratio}} for peer, ratio in (("openmpi", openmpi), ("mpich", mpich), ("roofline", 0.1))]
    return {"ranks": 2, "buffers": "private", "operation": "gather", "flags": flags, "results": results}

runs = [run([50, 60], 2, 3), run([50, 60], 0.75, 8), run([60, 60], 0.5, 9), run([200, 250], 4, 1.5), run([50, 250], 99, 99)]
json.dump(runs, open(sys.argv[1], "w"))
PYTHON
output=$("$1" --from "$folder/runs.json")
for line in '2 ranks, private buffers, near cores, 0 to 3 runs:' '| gather | **0.75** |  |' '2 ranks, private buffers, distant cores, 0 to 1 runs:' '| gather | 1.50 |  |' \
  '| 2, private, near | 1 of 1 | 0.75 | 0.75 | mpich 8.00, openmpi 0.75 |' '| 2, private, distant | 0 of 1 | 1.50 | 1.50 | mpich 1.50, openmpi 4.00 |'; do
  if [[ "$output" != *"$line"* ]]; then
    printf 'not found: %s\nin:\n%s\n' "$line" "$output"
    exit 1
  fi
done
if [[ "$output" == *99* ]]; then
  printf 'a run during which the cores changed counts:\n%s\n' "$output"
  exit 1
fi
