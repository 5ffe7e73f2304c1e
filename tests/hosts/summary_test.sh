#!/usr/bin/env bash
# What bench/between-hosts says of four cells: the table, the means beside each peer and beside the fastest one, and the cell that is behind.
#   summary_test.sh BENCH_HOSTS CELLS BUILD
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" --build "$3" --from "$2" --svg "$folder/plot.svg" >"$folder/is"
cat >"$folder/should" <<'END'
| hosts × ranks | operation | 8 B | 1 MiB |
|---|---|---|---|
| 2 × 1 | all_reduce | 2, 0.5, – | 8, –, 3 |

Open MPI: geometric mean 4.00 of 2 cells, 0 behind it
MPICH: geometric mean 0.50 of 1 cells, 1 behind it
Gloo: geometric mean 3.00 of 1 cells, 0 behind it
the fastest peer of each cell: geometric mean 1.22 of 2 cells, 1 behind it
the worst 1 of the 1 cells that are behind:
  0.50  2x1 all_reduce 8 B (MPICH)
END
diff "$folder/should" "$folder/is"
[[ $(grep -c '<polyline .*stroke-width="2"' "$folder/plot.svg") == 3 ]] || { echo "the plot has not a curve for each peer"; exit 1; }
