#!/usr/bin/env bash
# Runs the tests of the fault matrix (tests/faults/matrix.txt) again and again: those of the gate, without which nothing is released, 20 times. At the
# end stands a table, a line a row, and the code is 1 where any test has failed once. Tests of the label "long" are left out.
#   test-faults.sh [--times N] [--all | ROW...]    --all: every row; ROW: these alone, as in "K1 N7"
#   --build FOLDER    the build, build/release where none is given; its programs must be there
set -euo pipefail
cd "$(dirname "$0")/.."

times=20
which=(--gate)
rows=()
build=build/release
while (($# > 0)); do
  case "$1" in
    --times) times=${2:?--times takes a number}; shift ;;
    --build) build=${2:?--build takes a folder}; shift ;;
    --all) which=() ;;
    [A-Z][0-9]*) rows+=("$1"); which=() ;;
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    *) echo "usage: $0 [--times N] [--build FOLDER] [--all | ROW...]   (unknown argument: $1)" >&2; exit 2 ;;
  esac
  shift
done
[[ $times =~ ^[1-9][0-9]*$ ]] || { echo "$0: --times takes a number from 1" >&2; exit 2; }

programs=$(scripts/fault-matrix --programs "${which[@]}" "${rows[@]}")
while read -r program _; do
  [[ -x $build/tests/$program ]] || { echo "$0: there is no $build/tests/$program; build it" >&2; exit 2; }
done <<<"$programs"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
crashed=()
for ((round = 1; round <= times; ++round)); do
  mkdir "$folder/$round"
  failed=0
  begin=$SECONDS
  while read -r program filter; do
    log=$folder/$round/$program.log
    if ! "$build/tests/$program" --gtest_filter="$filter" --gtest_brief=1 --gtest_output="json:$folder/$round/$program.json" >"$log" 2>&1 </dev/null; then
      failed=$((failed + 1))
      [[ -e $folder/$round/$program.json ]] || crashed+=("$program in round $round")
      tail -n 60 "$log"
    fi
  done <<<"$programs"
  echo "round $round of $times: $failed programs failed, $((SECONDS - begin)) s"
done
code=0
scripts/fault-matrix --results "$folder" "${which[@]}" "${rows[@]}" || code=1
for program in "${crashed[@]}"; do
  echo "did not come to its end: $program"
  code=1
done
exit "$code"
