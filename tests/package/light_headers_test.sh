#!/usr/bin/env bash
# Fails where the headers that every program includes bring in what takes long to compile and what no signature of theirs needs.
#   light_headers_test.sh COMPILER INCLUDE_DIRECTORY
set -euo pipefail
compiler=$1
include=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# included TEXT: the path of every file that the compiler reads for it, one a line.
included() {
  printf '%s\n' "$1" > "$folder/source.cpp"
  "$compiler" -std=c++20 -I"$include" -E "$folder/source.cpp" | sed -n 's/^# [0-9]* "\([^"]*\)".*/\1/p' | sort -u
}
# brings FILES NAME: whether a file of this name is among them, within the standard library or as unisono/NAME.
brings() { grep -qE "(/c\+\+/([0-9.]+/|v1/)|/)$2\$" <<< "$1"; }

bad=0
check() {
  local header=$1 files name
  shift
  files=$(included "#include <unisono/$header>")
  for name in "$@"; do
    if brings "$files" "$name"; then
      echo "unisono/$header includes <$name>"
      bad=1
    fi
  done
}

# The check itself can tell.
brings "$(included '#include <iostream>')" iostream || { echo "this test does not see <iostream> where it is included"; exit 1; }
brings "$(included '#include <unisono/engine.h>')" unisono/engine.h || { echo "this test does not see unisono/engine.h where it is included"; exit 1; }

heavy=(iostream random regex thread future iomanip locale)
# Headers of the standard of which libstdc++ has parts in headers of their own (unisono/detail/standard.h).
if brings "$(included '#include <cstddef>')" 'bits/c\+\+config.h'; then
  heavy+=(filesystem complex chrono functional ranges memory algorithm sstream map unordered_map unordered_set deque list)
fi
check core.h "${heavy[@]}" variant unisono/engine.h unisono/store.h unisono/objects.h unisono/launch.h unisono/any_value.h
check unisono.h "${heavy[@]}"
check error.h unisono/engine.h unisono/tensor.h unisono/collectives.h
check collectives.h unisono/engine.h unisono/store.h
exit $bad
