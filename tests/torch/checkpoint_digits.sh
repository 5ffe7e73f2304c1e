#!/usr/bin/env bash
# The example digits-torch: as accurate with several ranks as alone, with the same weights but for rounding, and the same when it is resumed.
#   checkpoint_digits.sh PROGRAM UNISONO COMPARE RANKS...     with 2 among these numbers of ranks
set -euo pipefail
program=$1 unisono=$2 compare=$3 numbers=("${@:4}")
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE UNISONO_TERMINAL
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  printf '%s\n' "$@"
  exit 1
}

trained() {  # trained <output> <epoch>
  local accuracy
  accuracy=$(sed -n 's/.*test accuracy: \(0\.[0-9]*\|1\.0*\)$/\1/p' <<<"$1")
  [[ -n "$accuracy" ]] || fail "no accuracy, or not one:" "$1"
  awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy >= 0.98) }' || fail "accuracy $accuracy is below 0.98"
  [[ $(grep --count "epoch  *$2/$2  loss 0\.0" <<<"$1") == 1 ]] || fail "not one line for the last epoch:" "$1"
}

differ_by_less() {  # differ_by_less <limit> <checkpoint> <checkpoint>
  local text
  text=$("$compare" "$folder/$2" "$folder/$3")
  echo "$2 and $3: $text"
  [[ $(sed 's/.* after \([0-9]*\) and .*/\1/' <<<"$text") == $(sed 's/.* and \([0-9]*\) steps/\1/' <<<"$text") ]] || fail "not as many steps"
  awk -v limit="$1" '{ exit !($3 <= limit) }' <<<"$text" || fail "the weights differ by more than $1"
}

# In float, rounding grows with the steps: after four epochs (160 steps) the weights are still those of one process to the last digits but one.
"$program" "$folder/begun-alone" 4 >/dev/null
output=$("$program" "$folder/alone")
trained "$output" 20
for ranks in "${numbers[@]}"; do
  "$unisono" run -n "$ranks" -- "$program" "$folder/begun-by-$ranks" 4 >/dev/null
  differ_by_less 0.00001 begun-alone "begun-by-$ranks"
  output=$("$unisono" run -n "$ranks" -- "$program" "$folder/by-$ranks")
  trained "$output" 20
  differ_by_less 0.05 alone "by-$ranks"
done
"$unisono" run -n 1 -- "$program" "$folder/begun-by-1" 4 >/dev/null
differ_by_less 0 begun-alone begun-by-1

# Interrupted after four epochs and resumed, it is bit for bit what it would have been; and another number of ranks can go on.
cp "$folder/begun-by-2" "$folder/continued"
output=$("$unisono" run -n 2 -- "$program" "$folder/begun-by-2")
trained "$output" 20
if grep --quiet "epoch  *4/20" <<<"$output"; then fail "an epoch was done twice:" "$output"; fi
differ_by_less 0 by-2 begun-by-2
output=$("$program" "$folder/continued")
trained "$output" 20

# A checkpoint that is cut short is named, by every rank.
head --bytes 5000 "$folder/alone" >"$folder/cut"
if output=$("$unisono" run -n 2 -- "$program" "$folder/cut" 2>&1); then fail "went on from a checkpoint that is cut short"; fi
[[ "$output" == *"the checkpoint $folder/cut is cut short"* ]] || fail "it is not said which checkpoint is cut short:" "$output"
