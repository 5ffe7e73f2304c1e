#!/usr/bin/env bash
# Installs the build into a prefix, packs it into an archive and unpacks that elsewhere, and builds and runs a project that finds it there: by CMake, and by
# pkg-config.
#   find_package_test.sh BUILD_FOLDER CMAKE GENERATOR COMPILER
set -euo pipefail
build=$1 cmake=$2 generator=$3 compiler=$4
project=$(cd "$(dirname "$0")/find_package" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mkdir "$work/moved"
tar -C "$work/first" -c . | tar -C "$work/moved" -x
rm -r "$work/first"

if grep --recursive --files-with-matches --fixed-strings -e "$build" -e "$work/first" "$work/moved" --include='*.cmake' --include='*.pc' --include='*.h'; then
  echo "the files above name a folder of the build machine"
  exit 1
fi

"$cmake" -S "$project" -B "$work/outside" -G "$generator" -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
"$cmake" --build "$work/outside"

# The plug-ins that were built are found where they were installed.
"$work/moved/bin/unisono" info >"$work/info"
for plugin in "$work"/moved/lib*/unisono/libunisono_*.so "$work"/moved/lib*/*/unisono/libunisono_*.so; do
  [[ $plugin != *'*'* && $plugin != *.openmpi.so && $plugin != *.mpich.so ]] || continue
  name=${plugin##*/libunisono_}
  # One that lacks the library it drives says so itself. (A reader that stops early may end the writer by SIGPIPE, which pipefail takes for a failure.)
  tr -d ' \n' <"$work/info" | grep --fixed-strings -e "$plugin" -e "${name%.so}notavailable:" >/dev/null \
    || { cat "$work/info"; echo "$plugin is not used"; exit 1; }
done

# Without the variables of whatever launcher this test itself runs under.
alone=(env -u RANK -u WORLD_SIZE -u LOCAL_RANK -u LOCAL_WORLD_SIZE)
"${alone[@]}" "$work/outside/outside" | tee "$work/alone"
grep --quiet "rank 0 of 1: sum is right" "$work/alone"

"${alone[@]}" "$work/moved/bin/unisono" run -n 3 -- "$work/outside/outside" | tee "$work/together"
for rank in 0 1 2; do
  grep --quiet "rank $rank of 3: sum is right" "$work/together"
done

# Programs in C: of a project that enables no other language, and by the compiler alone.
"$cmake" -S "$project"_c -B "$work/outside_c" -G "$generator" -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_C_FLAGS="-pedantic -Wall -Wextra -Werror"
"$cmake" --build "$work/outside_c"
shared=("$work"/moved/lib*/libunisono.so "$work"/moved/lib*/*/libunisono.so)
for library in "${shared[@]}"; do [[ ! -e $library ]] || folder=$(dirname "$library"); done
cc -std=c99 -pedantic -Wall -Wextra -Werror -I"$work/moved/include" "$project/../outside.c" -o "$work/by_hand" -L"$folder" -Wl,-rpath,"$folder" -lunisono
for program in "$work/outside_c/outside_c" "$work/by_hand"; do
  "${alone[@]}" "$program" | grep "rank 0 of 1: sum is right"
  "${alone[@]}" "$work/moved/bin/unisono" run -n 2 -- "$program" | grep "rank 1 of 2: sum is right"
done
"${alone[@]}" "$work/moved/bin/unisono" run -n 2 -- sh -c 'if [ "$RANK" = 0 ]; then exec "$0"; else exec "$1"; fi' "$work/outside/outside" "$work/by_hand" | tee "$work/both"
[[ $(grep -c "of 2: sum is right" "$work/both") == 2 ]]

if ! command -v pkg-config >/dev/null; then
  echo "not tested: pkg-config is missing"
  exit 0
fi
PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name unisono.pc)")
export PKG_CONFIG_PATH
pkg-config --atleast-version 0.1 unisono
read -ra flags <<<"$(pkg-config --cflags --libs unisono)"
"$compiler" -std=c++20 "$project/../outside.cpp" -o "$work/by_pkg_config" "${flags[@]}" -Wl,-rpath,"$(pkg-config --variable=libdir unisono)"
"${alone[@]}" "$work/by_pkg_config" | tee "$work/alone"
grep --quiet "rank 0 of 1: sum is right" "$work/alone"
