#!/usr/bin/env bash
# scripts/bench/peers: it measures several shapes in one go, and tells for each the cells behind, the geometric mean and what has changed since; and makes
# one table of several runs.
#   bench_peers_script_test.sh SCRIPT BUILD PEER...     PEER: those of the build
set -euo pipefail
script=$1 build=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
expect() {
  grep -Eq "$2" "$folder/$1" || { printf 'not found in %s: %s\n' "$1" "$2"; cat "$folder/$1"; exit 1; }
}
refuse() {
  if "$script" --build "$build" "${@:2}" >"$folder/refused" 2>&1; then
    printf 'not refused: %s\n' "${*:2}"
    exit 1
  fi
  expect refused "$1"
}

# The table of two runs: of the system's own peers the fastest counts, and a cell is bold where no run's interval has 1 in it.
python3 - "$folder" <<'PYTHON'
import json, sys

def run(gather, scatter, of_system, cores):
    row = {"ranks": 2, "hosts": 1, "buffers": "private", "cores": cores}
    def ratio(op, size, impl, version, median, high):
        return {**row, "op": op, "bytes": size, "impl": impl, "version": version, "ratio": {"median": median, "low": median / 2, "high": high}}
    return [{**row, "op": "gather", "bytes": 8, "impl": "unisono"}, ratio("gather", 8, "ucx-engine", "UCX", 0.1, 0.1),
            ratio("gather", 8, "openmpi-5", "Open MPI v5.0.11", gather, 0.98), ratio("scatter", 1024, "openmpi-5", "Open MPI v5.0.11", scatter, 2),
            ratio("gather", 8, "openmpi", "Open MPI v4.1.4", of_system, 9), ratio("gather", 8, "gloo", "Gloo 0.5.0", 8, 9)]

for name, *what in (("first", 0.9, 0.5, 2, "near"), ("second", 0.8, 2, 4.5, "distant")):
    json.dump(run(*what), open(f"{sys.argv[1]}/{name}", "w"))
json.dump([], open(f"{sys.argv[1]}/empty", "w"))
PYTHON
"$script" --table "$folder/first,$folder/second" >"$folder/table"
expect table '^\| 2 ranks, private buffers, near, distant cores \| Open MPI v5\.0\.11 \| 0\.67, 1\.26 \| 2, 1 of 2 \| 8 B \*\*gather 0\.80–0\.90\*\* \| 1 KiB scatter 0\.50–2\.00 \|$'
expect table '^\| [^|]* \| Gloo 0\.5\.0, Open MPI v4\.1\.4 \| 2\.00, 4\.50 \| 0, 0 of 1 \|  \|  \|$'
expect table '^\| [^|]* \| the fastest of all \| 0\.67, 1\.26 \| 2, 1 of 2 \|'
refuse "empty has no results of unisono beside others" --table "$folder/first,$folder/empty"

[[ " $* " == *" gloo "* ]] || { echo "skipped: the bench was built without Gloo"; exit 77; }
"$script" --build "$build" --peers gloo --ops all_reduce --sizes 8 --quick --rounds 1 --shapes 2,2:shared,2x1 --json "$folder/before" >"$folder/out"
"$script" --build "$build" --from "$folder/before" --baseline "$folder/before" >"$folder/same"
for shape in '2 ranks, f32, private' '2 ranks, f32, shared' '2 ranks as of 2 hosts, f32, private'; do
  expect out "^$shape buffers, static data"
done
expect out '^slower than a peer in [0-9]+ of 1 cell; geometric mean [0-9.e+]+ '
expect out '^  gloo \(Gloo [0-9.]+\): slower than it in '
expect same "^baseline .*: 0 of 6 figures changed\."
refuse "^unisono bench: there is no MPI in " --peers "$folder" --shapes 2
build=/nowhere refuse "^bench/peers: there is no /nowhere/bin/unisono; build it" --shapes 2
