#!/usr/bin/env bash
# A project that takes the sources in with add_subdirectory. Where the project names no build type, the library is optimised all the same, and the
# project is as it was. With --build the project is built and run as well, for which the whole library is compiled once more.
#   add_subdirectory_test.sh SOURCE_FOLDER CMAKE GENERATOR [--build]
set -euo pipefail
source=$1 cmake=$2 generator=$3
project=$(cd "$(dirname "$0")/add_subdirectory" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

configure() {  # configure <folder> <option>...
  local folder=$1
  shift
  "$cmake" -S "$project" -B "$folder" -G "$generator" -DUNISONO_SOURCE="$source" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@" >"$folder.log" 2>&1 \
    || { cat "$folder.log"; exit 1; }
}
# A reader that stops early (grep --quiet) ends the writer by SIGPIPE, which pipefail would take for a failure: each pipe is read to its end.
commands() { sed -n 's/^ *"command": //p' "$1/compile_commands.json"; }
ours() { commands "$1" | grep 'unisono_objects'; }

configure "$work/plain" -UCMAKE_BUILD_TYPE
ours "$work/plain" >/dev/null
if ours "$work/plain" | grep --invert-match -e '-O2' >"$work/unoptimised"; then
  echo "without a build type these of ours are not optimised:"
  head -n 3 "$work/unoptimised"
  exit 1
fi
if commands "$work/plain" | grep '/outside\.cpp' | grep -e '-O' >/dev/null; then
  echo "the project's own program was given a flag to optimise"
  exit 1
fi
grep --quiet 'none given, so unisono is compiled with -O2' "$work/plain.log"
configure "$work/own" -DCMAKE_CXX_FLAGS=-O1
if ours "$work/own" | grep -e '-O2' >/dev/null; then
  echo "the project's own -O1 was overruled"
  exit 1
fi

# A project that asks for static libraries gets one, without plug-ins.
configure "$work/static" -DBUILD_SHARED_LIBS=OFF
"$cmake" --build "$work/static" --target help >"$work/targets"
if grep -E 'unisono_(gloo|mpi|ucx|nccl|torch)\b' "$work/targets"; then
  echo "plug-ins are built beside a static library"
  exit 1
fi
grep --quiet 'builds     static library' "$work/static.log"

if [[ ${4:-} != --build ]]; then
  configure "$work/outside" -DCMAKE_BUILD_TYPE=Debug -DUNISONO_DEVELOPER=ON
  "$cmake" --build "$work/outside" --target help >"$work/targets"
  grep --quiet 'unisono_objects' "$work/targets"
  if grep -E 'unisono-tool|_test\b|example' "$work/targets"; then
    echo "the subproject would build more than the library"
    exit 1
  fi
  exit
fi
# Without the optimiser, since compiling is what takes the time here.
configure "$work/outside" -DCMAKE_BUILD_TYPE=Debug -DUNISONO_DEVELOPER=ON
"$cmake" --build "$work/outside"

env -u RANK -u WORLD_SIZE -u LOCAL_RANK -u LOCAL_WORLD_SIZE "$work/outside/outside" | tee "$work/alone"
grep --quiet "rank 0 of 1: sum is right" "$work/alone"

# The static one in a project that takes warnings for errors, more of them than this one, by each compiler that is here.
strict="-O2 -Wall -Wextra -Wconversion -Werror"
flags=("-DCMAKE_CXX_FLAGS=$strict")
! command -v clang++-16 >/dev/null || clang=("-DCMAKE_CXX_COMPILER=clang++-16" "-DCMAKE_CXX_FLAGS=$strict -Wexit-time-destructors")
for compiler in gcc clang; do
  [[ $compiler == gcc || -n ${clang[*]:-} ]] || { echo "not built by Clang: there is no clang++-16"; continue; }
  [[ $compiler == gcc ]] || flags=("${clang[@]}")
  configure "$work/$compiler" -DBUILD_SHARED_LIBS=OFF "${flags[@]}"
  "$cmake" --build "$work/$compiler"
  if readelf --dynamic "$work/$compiler/outside" | grep 'libunisono'; then
    echo "the program needs a library that was to be a part of it"
    exit 1
  fi
  env -u RANK -u WORLD_SIZE -u LOCAL_RANK -u LOCAL_WORLD_SIZE "$work/$compiler/outside" | tee "$work/alone"
  grep --quiet "rank 0 of 1: sum is right" "$work/alone"
  if env -u RANK -u WORLD_SIZE UNISONO_BACKEND=gloo "$work/$compiler/outside" >"$work/refused" 2>&1; then
    echo "the static library took a plug-in"
    exit 1
  fi
  grep --quiet "takes no plug-ins" "$work/refused" || { cat "$work/refused"; exit 1; }
done

# A guest has no business building these.
for surplus in bin/unisono unisono/bin/unisono; do
  if [[ -e "$work/outside/$surplus" ]]; then
    echo "the subproject built $surplus"
    exit 1
  fi
done
