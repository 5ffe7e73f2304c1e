#!/usr/bin/env bash
# The comparison with Open MPI and Gloo on two hosts with slow and distant links: whether it works, not how it ends. No call can take less time than its
# packets do.
#   shaped_test.sh BENCH_HOSTS BUILD
set -euo pipefail
[[ -e $2/libexec/unisono/unisono-bench-mpi.openmpi.so ]] || { echo "skipped: the bench's part for Open MPI is not built"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" --build "$2" --rate 1gbit --delay 5ms --shapes 2x2 --ops all_reduce --sizes 8,256KiB --peers openmpi,gloo --rounds 1 --json "$folder/cells" |
  tee "$folder/out"
grep -Eq '^2x2: iperf3 [0-9]+ Mbit/s from each host, 2 streams in a ring; all_reduce of 256 KiB takes [0-9]+ us, at that rate [0-9]+ us: [0-9]+ %$' "$folder/out"
grep -Eq '^\| 2 × 2 \| all_reduce \| [0-9.e+]+, [0-9.e+]+ \| [0-9.e+]+, [0-9.e+]+ \|$' "$folder/out"
python3 - "$folder/cells" <<'END'
import json, sys
cells = json.load(open(sys.argv[1]))
assert len(cells) == 4, cells
assert all(cell["us"] > 5000 for cell in cells), f"quicker than the link: {cells}"
END
