#!/usr/bin/env bash
# check/words finds a retired word as an identifier, and none in comments, texts and longer names.
#   check_words_test.sh CHECK_WORDS
set -euo pipefail
check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src"

printf '// The Door of a house.\nconst char* text = "Warden";\nclass MessageCarrier;\nint ways = 2;\n' >"$work/src/right.h"
"$check" "$work" || { echo "refused a tree that is right"; exit 1; }

for word in Bell Warden Door Spanning Backend grumble; do
  printf 'class Other { int %s; };\n' "$word" >"$work/src/wrong.h"
  if output=$("$check" "$work" 2>&1); then
    echo "accepted $word"
    exit 1
  fi
  [[ "$output" == *"src/wrong.h:1: $word is retired"* ]] || { echo "message: $output"; exit 1; }
done
