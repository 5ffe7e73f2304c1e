#!/usr/bin/env bash
# feature-coverage counts what it should, and complains of each kind of wrong list.
#   coverage_of_features_test.sh FEATURE_COVERAGE
set -euo pipefail
check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# The IDs are put together here, so that this file names no row itself.
t=T k=K ts=TS
tree() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/tests/features" "$work/tree/tests/unit"
  printf '# comment\n%s-01 init\n%s-02 rank\n%s-03 size\n%s-04+ later\n%s-01 bug\n%s-01 since\n' $t $t $t $t $k $ts >"$work/tree/tests/features/rows.txt"
  printf '# comment\n%s-01: cannot be tested\n' $k >"$work/tree/tests/features/waived.txt"
  # A range, and words that only look like rows.
  printf '// %s-01 … %s-03; SHA-256, X%s-04, %s-041\n' $t $t $t $t >"$work/tree/tests/unit/a_test.cpp"
}

right() {  # right <text in the output>
  local output
  if ! output=$("$check" --root "$work/tree" 2>&1) || [[ "$output" != *"$1"* ]]; then
    printf 'expected success and "%s" in\n%s\n' "$1" "$output"
    failures=1
  fi
}
wrong() {  # wrong <text in the output>
  local output
  if output=$("$check" --root "$work/tree" 2>&1) || [[ "$output" != *"$1"* ]]; then
    printf 'expected failure and "%s" in\n%s\n' "$1" "$output"
    failures=1
  fi
}

tree
right "all             3        1        0        2"
tree
printf '// %s-01 %s-03\n' $t $t >"$work/tree/tests/unit/a_test.cpp"
wrong "missing  $t-02"
tree
printf '// %s-09\n' $t >"$work/tree/tests/unit/b_test.cpp"
wrong "b_test.cpp names $t-09, which is no row"
tree
printf '// %s-01\n' $k >"$work/tree/tests/unit/b_test.cpp"
wrong "$k-01 is waived, yet tests/unit/b_test.cpp covers it"
tree
printf '%s-02:\n' $t >>"$work/tree/tests/features/waived.txt"
wrong "no reason"
tree
printf '%s-77: gone\n' $t >>"$work/tree/tests/features/waived.txt"
wrong "waives $t-77, which is no row"
tree
printf '%s-01 again\n' $t >>"$work/tree/tests/features/rows.txt"
wrong "$t-01 stands twice"
tree
rm "$work/tree/tests/features/rows.txt"
wrong "no rows"

exit "$failures"
