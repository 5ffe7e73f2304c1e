#!/usr/bin/env bash
# Builds and runs a project that takes the sources in with add_subdirectory; only the library is built there.
#   add_subdirectory_test.sh SOURCE_FOLDER CMAKE GENERATOR
set -euo pipefail
source=$1 cmake=$2 generator=$3
project=$(cd "$(dirname "$0")/add_subdirectory" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
launcher=$(command -v ccache || true)

# With the flags of the preset release, so that a compiler cache that saw that build has all of it.
"$cmake" -S "$project" -B "$work/outside" -G "$generator" -DUNISONO_SOURCE="$source" -DCMAKE_BUILD_TYPE=Release -DUNISONO_DEVELOPER=ON \
  ${launcher:+-DCMAKE_CXX_COMPILER_LAUNCHER="$launcher"}
"$cmake" --build "$work/outside"

env -u RANK -u WORLD_SIZE -u LOCAL_RANK -u LOCAL_WORLD_SIZE "$work/outside/outside" | tee "$work/alone"
grep --quiet "rank 0 of 1: sum is right" "$work/alone"

# What a guest has no business building.
for surplus in bin/unisono unisono/bin/unisono; do
  if [[ -e "$work/outside/$surplus" ]]; then
    echo "the subproject built $surplus"
    exit 1
  fi
done
