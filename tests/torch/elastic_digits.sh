#!/usr/bin/env bash
# The example digits-torch-elastic: training that loses a rank, goes on, and takes a new one in is as accurate as one that was not disturbed, and leaves
# the same bits on all ranks.
#   elastic_digits.sh PROGRAM UNISONO
set -euo pipefail
program=$1 unisono=$2
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE UNISONO_NEWCOMER
output=
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

fail() {
  printf '%s; the output was\n%s\n' "$1" "$output"
  exit 1
}
accuracy_of() { sed -n 's/.*test accuracy: \(0\.[0-9]*\|1\.0*\)$/\1/p' <<<"$1"; }
alike_on() {  # alike_on <ranks>: that many ranks have told their weights, and all the same
  local sums
  sums=$(sed -n 's/.*weights: checksum \([0-9a-f]\{16\}\)$/\1/p' <<<"$output")
  [[ $(grep --count . <<<"$sums") == "$1" ]] || fail "not $1 ranks have come to the end"
  [[ $(sort --unique <<<"$sums" | grep --count .) == 1 ]] || fail "the ranks have different weights"
}

output=$("$unisono" run -n 4 -- "$program")
alike_on 4
expected=$(accuracy_of "$output")
awk -v accuracy="$expected" 'BEGIN { exit !(accuracy >= 0.97) }' || fail "accuracy $expected is below 0.97"

for lost in 0 2; do
  output=$("$unisono" run -n 2:4 --max-restarts 3 -- "$program" "$lost" 2>"$errors") || fail "the job failed: $(cat "$errors")"
  alike_on 4
  accuracy=$(accuracy_of "$output")
  awk -v a="$accuracy" -v b="$expected" 'BEGIN { exit !(a - b <= 0.01 && b - a <= 0.01) }' || fail "accuracy ${accuracy:-of nothing} instead of $expected"
  grep --quiet "ranks: 4$" <<<"$output" || fail "the job did not end with four ranks"
  grep --quiet "3 ranks instead of 4" <<<"$output" || fail "nobody went on without the lost rank"
  grep --quiet "4 ranks instead of 3" <<<"$output" || fail "nobody was taken in"
  grep --quiet "rank $lost ended by SIGKILL; another process takes its place" "$errors" || fail "the launcher did not name the lost rank: $(cat "$errors")"
done
