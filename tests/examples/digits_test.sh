#!/usr/bin/env bash
#   digits_test.sh PROGRAM UNISONO
set -euo pipefail
program=$1 unisono=$2
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE UNISONO_TERMINAL
output=

fail() {
  printf '%s; the output was\n%s\n' "$1" "$output"
  exit 1
}

trained_by() {  # trained_by <ranks>: looks at $output
  local accuracy
  accuracy=$(sed -n 's/.*test accuracy: \(0\.[0-9]*\|1\.0*\)$/\1/p' <<<"$output")
  [[ -n "$accuracy" ]] || fail "no accuracy, or not one"
  awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy >= 0.95) }' || fail "accuracy $accuracy is below 0.95"
  grep --quiet "confirmed by $1 of $1 ranks" <<<"$output" || fail "the ranks do not agree on the weights"
  grep --quiet "epoch 40/40  loss 0\.0" <<<"$output" || fail "no line for the last epoch, or a loss that did not fall"
  grep --quiet $'\r' <<<"$output" && fail "a progress bar where there is no terminal"
  return 0
}

output=$("$program")
trained_by 1
for ranks in 3 4; do  # batches of 32 divide among four, not among three
  output=$("$unisono" run -n "$ranks" -- "$program")
  trained_by "$ranks"
done

# On a terminal the epochs share one line, launched or not.
for command in "'$program'" "'$unisono' run -n 2 -- '$program'"; do
  output=$(script --quiet --return --command "$command" /dev/null </dev/null)
  grep --quiet 'epoch 40/40 \[########################################\]' <<<"$output" || fail "no progress bar on a terminal: $command"
done

# Bad input: a sentence and a code.
if output=$("$program" /nowhere/digits.csv 2>&1); then fail "trained without data"; fi
[[ "$output" == *"cannot read /nowhere/digits.csv"* ]] || fail "a missing file is not named"
broken=$(mktemp)
trap 'rm -f "$broken"' EXIT
echo "1,2,3" >"$broken"
if output=$("$program" "$broken" 2>&1); then fail "trained on a broken file"; fi
[[ "$output" == *"$broken:1: not 64 pixels"* ]] || fail "the broken line is not named"
