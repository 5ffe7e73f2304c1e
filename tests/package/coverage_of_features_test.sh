#!/usr/bin/env bash
# check/feature-coverage counts what has passed, in C++ and in Python, and complains of each kind of wrong list.
#   coverage_of_features_test.sh FEATURE_COVERAGE
set -euo pipefail
check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

tree() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/tests/features" "$work/tree/build/release/coverage"
  printf '# comment\nT-01 init\nT-02 rank\nT-03 size\nT-04+ later\nK-01 bug\nTS-01 since\nTS-02 to come\n' >"$work/tree/tests/features/rows.txt"
  printf '# comment\nK-01: cannot be tested\n' >"$work/tree/tests/features/waived.txt"
  printf '# comment\nT TS-02: to come\n' >"$work/tree/tests/features/waiting.txt"
  touch "$work/a_test" "$work/b_test" "$work/c_test.py"
  record a_test 'passed T-01 A.One' 'passed T-02 A.One' 'passed T-02 A.Two' 'passed T-03 A.Three' 'passed TS-02 A.Three' 'gpu TS-01 A.Four'
  record c_test.py 'passed TS-01 C.One'
}
record() {  # record <program> <line>...: what the program leaves
  local program=$1
  shift
  printf '%s\n' "program $work/$program" "$@" >"$work/tree/build/release/coverage/$program.txt"
}

right() {  # right <text in the output> <argument>...
  local text=$1 output
  shift
  if ! output=$("$check" --root "$work/tree" "$@" 2>&1) || [[ "$output" != *"$text"* ]]; then
    printf 'expected success and "%s" in\n%s\n' "$text" "$output"
    failures=1
  fi
}
wrong() {  # wrong <text in the output> <argument>...
  local text=$1 output
  shift
  if output=$("$check" --root "$work/tree" "$@" 2>&1) || [[ "$output" != *"$text"* ]]; then
    printf 'expected failure and "%s" in\n%s\n' "$text" "$output"
    failures=1
  fi
}

tree
all="all            5         4         1         4         0         0         1         1         0"
right "$all"
right "T-02   covered  rank  [A.One A.Two]" --rows
right "TS-01  covered  since  [C.One]" TS-01
right "" --lists
mv "$work/tree/build" "$work/tree/elsewhere"
wrong "no test that covers a row has run"
right "$all" "$work/tree/elsewhere/release"

# A comment counts for nothing, nor does a test that was skipped.
tree
mkdir "$work/tree/tests/unit"
printf '// T-02\n' >"$work/tree/tests/unit/a_test.cpp"
record a_test 'passed T-01 A.One' 'skipped T-02 A.Two' 'passed T-03 A.Three' 'passed TS-02 A.Four'
wrong "missing  T-02   rank  [skipped here: A.Two]"
record b_test 'passed T-02 B.One'
right "T-02   covered  rank  [B.One]" T-02
# What Python programs call takes a test in Python, also where there is one in C++, until it waits for one.
tree
rm "$work/tree/build/release/coverage/c_test.py.txt"
wrong "missing  TS-01  since  [in Python; in C++ there is A.Four]"
printf 'TS-01: to come\n' >>"$work/tree/tests/features/waiting.txt"
right "TS-01  gpu      since  [A.Four]" TS-01
record c_test.py 'passed TS-01 C.One'
wrong "TS-01 is waiting, yet C.One covers it"
# All families are required.
tree
record a_test 'passed T-01 A.One' 'passed T-02 A.Two' 'passed T-03 A.Three'
wrong "missing  TS-02"
# A program that was built anew has to run anew.
tree
touch -d '1 minute' "$work/a_test"
wrong "a_test.txt is not counted"
rm "$work/a_test"
wrong "missing  T-01"

tree
record b_test 'passed T-09 B.One'
wrong "b_test B.One covers T-09, which is no row"
for word in passed gpu; do
  tree
  record b_test "$word K-01 B.One"
  wrong "K-01 is waived, yet B.One covers it"
done
for option in "" --lists; do
  tree
  printf 'T-02:\n' >>"$work/tree/tests/features/waived.txt"
  wrong "no reason" $option
  tree
  printf 'T-77: gone\n' >>"$work/tree/tests/features/waived.txt"
  wrong "waives T-77, which is no row" $option
  tree
  printf 'T-77: gone\n' >>"$work/tree/tests/features/waiting.txt"
  wrong "lists T-77, which is no row" $option
  tree
  printf 'T-01 again\n' >>"$work/tree/tests/features/rows.txt"
  wrong "T-01 stands twice" $option
  tree
  rm "$work/tree/tests/features/rows.txt"
  wrong "no rows" $option
done

exit "$failures"
