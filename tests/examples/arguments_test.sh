#!/usr/bin/env bash
# Every program says with --help how it is called, and refuses what it does not know with a sentence and code 2, before it does anything.
#   arguments_test.sh COMMAND...     each a program, or an interpreter and its program in one word
set -euo pipefail
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE UNISONO_BACKEND
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/empty"
cd "$work/empty"
failures=0

fail() {
  printf '%s: %s\nexit code %s\nstandard output:\n%s\nstandard error:\n%s\n' "$words" "$1" "$code" "$(cat "$work/out")" "$(cat "$work/err")"
  failures=$((failures + 1))
}
attempt() {  # attempt <argument>...
  words="${command[*]} $*" code=0
  timeout 120 "${command[@]}" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
  if [[ -n $(ls -A) ]]; then
    fail "it has written $(ls -A)"
    rm -rf -- "$work/empty/"* "$work/empty/".[!.]*
  fi
}
refused() {  # refused <word in the sentence> <argument>...
  local word=$1
  shift
  attempt "$@"
  ((code == 2)) || fail "expected to be refused with code 2"
  [[ ! -s "$work/out" ]] || fail "it said something on standard output"
  grep --quiet --fixed-strings -e "$word" "$work/err" || fail "no sentence names $word"
}

for text in "$@"; do
  read -ra command <<<"$text"
  attempt --help
  ((code == 0)) || fail "--help ended with another code"
  grep --quiet '^usage: ' "$work/out" || fail "no line begins with usage"
  (($(wc -l <"$work/out") >= 2)) || fail "it is not said what the program does"
  refused --bogus --bogus
  refused surplus- surplus-1 surplus-2 surplus-3 surplus-4 surplus-5
done

((failures == 0)) || { echo "$failures failures"; exit 1; }
echo "$# programs"
