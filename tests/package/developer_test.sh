#!/usr/bin/env bash
# Whoever clones the sources and follows README or documents meets no warning that is an error: only the preset developer has that, and the continuous
# integration builds by it.
#   developer_test.sh SOURCE_FOLDER CMAKE
set -euo pipefail
source=$1 cmake=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

errors_in() {  # errors_in <name> <preset>: whether the library is compiled with warnings as errors
  "$cmake" -S "$source" -B "$work/$1" "${@:2}" -DUNISONO_BUILD_COMMAND=OFF -DUNISONO_BUILD_TESTS=OFF -DUNISONO_BUILD_EXAMPLES=OFF -DUNISONO_BUILD_BENCH=OFF \
    -DUNISONO_BUILD_PYTHON=OFF -DUNISONO_TORCH=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  [[ -n $(grep '"command":.* -Werror .*unisono_objects' "$work/$1/compile_commands.json") ]]
}
fail() { echo "$1"; exit 1; }

! errors_in plain || fail "cmake -S . -B build makes warnings errors"
! errors_in release --preset release || fail "the preset release makes warnings errors"
errors_in developer --preset developer || fail "the preset developer does not make warnings errors"
! errors_in developer --preset release || fail "the preset release keeps what the preset developer has set"
for script in demo test; do
  grep --quiet "^\./scripts/$script\.sh --developer" "$source/.ci/run" || fail "the continuous integration runs $script.sh without --developer"
done
