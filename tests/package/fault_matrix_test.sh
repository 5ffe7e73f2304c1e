#!/usr/bin/env bash
# scripts/check/fault-matrix on a tree of its own: what it accepts, and what it names.
set -euo pipefail
matrix=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/tests/faults" "$folder/build/coverage/tests"
printf '#!/bin/sh\n' >"$folder/build/some_test"

list() { cat >"$folder/tests/faults/matrix.txt"; }
record() {
  { echo "program $folder/build/some_test"; printf '%s\n' "$@"; } >"$folder/build/coverage/tests/some_test.txt"
  touch -d '+1 minute' "$folder/build/coverage/tests/some_test.txt"
}
accepts() { "$matrix" --root "$folder" "$@" >"$folder/said" 2>&1 || { cat "$folder/said"; echo "FAILED: not accepted: $*"; exit 1; }; }
refuses() {  # refuses TEXT ARGUMENT...
  if "$matrix" --root "$folder" "${@:2}" >"$folder/said" 2>&1; then echo "FAILED: accepted: ${*:2}"; exit 1; fi
  grep -qF -e "$1" "$folder/said" || { cat "$folder/said"; echo "FAILED: it does not say \"$1\""; exit 1; }
}

list <<'END'
# a comment
K1 m4,m5 gate: a fault
  m4 shm 2,4 some_test Suite.Small*
  waived m5: for a reason
N1 m3: another one
  m3 tcp 2 long other_test Suite.Long
END
accepts --lists
record "passed Suite.Small/0" "passed Suite.Small/1"
accepts "$folder/build"
grep -qF "2 rows, 2 moments covered by tests that have passed, 1 waived" "$folder/said"
refuses "N1 m3 is not covered: other_test Suite.Long: not run" --long "$folder/build"
[[ $("$matrix" --root "$folder" --programs --gate) == "some_test Suite.Small*" ]]
mkdir -p "$folder/docs/design"
printf '# Page\n\n<!-- by scripts/check/fault-matrix --write -->\n<!-- end of the table -->\n' >"$folder/docs/design/reliability-matrix.md"
refuses "has another table than the list" --fresh
accepts --write
accepts --fresh
# One line for each fault, and the reasons below.
grep -qxF '| **K1** ▪ | a fault | m4 | shm | 2, 4 | `some_test` |' "$folder/docs/design/reliability-matrix.md"
grep -qxF '* **K1** a fault, m5: for a reason.' "$folder/docs/design/reliability-matrix.md"

record "passed Suite.Small/0" "failed Suite.Small/1"
refuses "K1 m4 is not covered: some_test Suite.Small*: failed: Suite.Small/1" "$folder/build"
record "skipped Suite.Small/0"
refuses "K1 m4 is not covered: some_test Suite.Small*: skipped here" "$folder/build"
accepts --skipped-ok "$folder/build"
record "passed Suite.Large"
refuses "some_test Suite.Small*: not run" "$folder/build"
record "passed Suite.Small"
touch -d '+2 minutes' "$folder/build/some_test"  # built since
refuses "some_test Suite.Small*: not run" "$folder/build"

list <<<'K1 m4,m5: a fault
  m4 shm 2 some_test Suite.Small'
refuses "K1 m5 is neither covered nor waived" --lists
list <<<'K1 m4: a fault
  m4 shm 2 some_test Suite.Small
  waived m4: for a reason'
refuses "K1 m4 is waived, yet a test covers it" --lists
list <<<'K1 m4: a fault
  m9 shm 2 some_test Suite.Small'
refuses "a moment that K1 does not have" --lists
list <<<'K1 m4: a fault
  m4 smoke 2 some_test Suite.Small'
refuses "an unknown transport" --lists
list <<<'K1 m4: a fault
  waived m4:'
refuses "neither a test nor a waiver" --lists
