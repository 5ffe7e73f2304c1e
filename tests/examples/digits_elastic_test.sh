#!/usr/bin/env bash
# Training that loses a rank, goes on, and takes a new one in ends with the very weights of an undisturbed run.
#   digits_elastic_test.sh PROGRAM UNISONO
set -euo pipefail
program=$1 unisono=$2
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE UNISONO_NEWCOMER
output=

fail() {
  printf '%s; the output was\n%s\n' "$1" "$output"
  exit 1
}
result_of() { sed -n 's/.*\(test accuracy: .*\|weights: .*\)$/\1/p' <<<"$1"; }

undisturbed=$("$program")
expected=$(result_of "$undisturbed")
output=$undisturbed
accuracy=$(sed -n 's/^test accuracy: //p' <<<"$output")
awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy >= 0.95) }' || fail "accuracy $accuracy is below 0.95"

for lost in 0 2; do
  errors=$(mktemp)
  output=$("$unisono" run -n 2:4 --max-restarts 3 -- "$program" "$lost" 2>"$errors") || fail "the job failed: $(cat "$errors")"
  said=$(cat "$errors")
  rm -f "$errors"
  [[ "$(result_of "$output")" == "$expected" ]] || fail "another result than without a loss: $expected"
  grep --quiet "ranks: 4$" <<<"$output" || fail "the job did not end with four ranks"
  grep --quiet "3 ranks instead of 4" <<<"$output" || fail "nobody went on without the lost rank"
  grep --quiet "4 ranks instead of 3" <<<"$output" || fail "nobody was taken in"
  [[ "$said" == *"rank $lost ended by SIGKILL; another process takes its place"* ]] || fail "the launcher did not name the lost rank: $said"
done
