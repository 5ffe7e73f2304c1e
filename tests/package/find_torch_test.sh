#!/usr/bin/env bash
# Installs the build into a prefix, moves the prefix, and builds and runs a project against it, with the PyTorch that is named and with the one that the
# package remembers; then asks for the component torch where it is not, and where PyTorch is gone, or another than built for.
#   find_torch_test.sh BUILD_FOLDER CMAKE GENERATOR TORCH_PACKAGE
set -euo pipefail
build=$1 cmake=$2 generator=$3 torch=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
project=$(cd "$(dirname "$0")/find_torch" && pwd)

"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first" "$work/moved"
package=$(dirname "$(find "$work/moved" -name unisono-config.cmake)")

configure() {  # FOLDER PREFIX_PATH
  "$cmake" -S "$project" -B "$work/$1" -G "$generator" -DCMAKE_PREFIX_PATH="$2"
}
refused() {  # SENTENCE FOLDER PREFIX_PATH
  if configure "$2" "$3" >"$work/log" 2>&1; then
    echo "expected to be refused: $1"
    exit 1
  fi
  tr --squeeze-repeats ' \n' ' ' <"$work/log" | grep --fixed-strings "$1" >/dev/null || { cat "$work/log"; exit 1; }
}

configure outside "$work/moved;$torch"
"$cmake" --build "$work/outside"
alone=(env -u RANK -u WORLD_SIZE -u LOCAL_RANK -u LOCAL_WORLD_SIZE)
"${alone[@]}" "$work/outside/first" | tee "$work/alone"
grep --quiet "rank 0 of 1: 1, 1 shapes" "$work/alone"
"${alone[@]}" "$work/moved/bin/unisono" run -n 4 -- "$work/outside/first" | tee "$work/together"
for rank in 0 1 2 3; do
  grep --quiet "rank $rank of 4: 10, 4 shapes" "$work/together"
done

# The PyTorch that unisono was built with is found where nobody names one: no other file of the package knows where it is.
remembered=$package/unisono-torch-location.cmake
built_with=$(sed -n 's/^set(unisono_torch_built_with "\(.*\)")$/\1/p' "$remembered")
[[ -f $built_with/TorchConfig.cmake && $(realpath "$built_with") == "$(realpath "$torch/Torch")" ]] || { echo "remembered: $built_with"; exit 1; }
if grep --recursive --files-with-matches --fixed-strings -e "$built_with" "$work/moved" --include='*.cmake' |
  grep --invert-match --fixed-strings "$remembered"; then
  echo "the files above name the folder of PyTorch"
  exit 1
fi
configure without "$work/moved" | tee "$work/log"
grep --quiet --fixed-strings "its PyTorch is in $built_with" "$work/log"
# It is a hint: what is not there any more, and what is named, count more.
echo 'set(unisono_torch_built_with "/nowhere/share/cmake/Torch")' >"$remembered"
refused "needs PyTorch" gone "$work/moved"
refused "The one that unisono was built with is not in /nowhere/share/cmake/Torch any more" gone "$work/moved"
printf 'set(unisono_torch_built_with "%s")\n' "$built_with" >"$remembered"

# A PyTorch with CUDA: its own package, which may end the configuration where it does not find the toolkit that it likes, is not asked.
built_for=$(sed -n 's/^set(unisono_torch_built_for "\(.*\)")$/\1/p' "$package/unisono-config.cmake")
with_cuda=$work/with-cuda
mkdir -p "$with_cuda/lib" "$with_cuda/share/cmake/Torch"
ln -s "$(realpath "$torch/../../include")" "$with_cuda/include"
ln -s "$(realpath "$torch/../../lib")"/* "$with_cuda/lib/"
touch "$with_cuda/lib/libtorch_cuda.so"
echo 'message(FATAL_ERROR "I cannot find the CUDA libraries")' >"$with_cuda/share/cmake/Torch/TorchConfig.cmake"
printf '%s\n' "set(PACKAGE_VERSION $built_for)" 'if(NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)' \
  '  set(PACKAGE_VERSION_COMPATIBLE TRUE)' 'endif()' >"$with_cuda/share/cmake/Torch/TorchConfigVersion.cmake"
configure cuda "$work/moved;$with_cuda/share/cmake"
"$cmake" --build "$work/cuda"
"${alone[@]}" "$work/cuda/first" | tee "$work/alone"
grep --quiet "rank 0 of 1: 1, 1 shapes" "$work/alone"

# A PyTorch of another version: all that is asked of it first is which it is.
for other in 2.1.0 99.0.0; do
  mkdir -p "$work/torch-$other/Torch"
  echo 'set(Torch_FOUND TRUE)' >"$work/torch-$other/Torch/TorchConfig.cmake"
  printf 'set(PACKAGE_VERSION %s)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n' "$other" >"$work/torch-$other/Torch/TorchConfigVersion.cmake"
done
refused "was built for PyTorch $built_for; the one in" older "$work/moved;$work/torch-2.1.0"
refused "is 2.1.0, which is older" older "$work/moved;$work/torch-2.1.0"
refused "is 99.0.0, which is newer" newer "$work/moved;$work/torch-99.0.0"
mkdir -p "$work/torch-abi/Torch"
echo 'set(Torch_FOUND TRUE)
set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")' >"$work/torch-abi/Torch/TorchConfig.cmake"
printf 'set(PACKAGE_VERSION %s)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n' "$built_for" >"$work/torch-abi/Torch/TorchConfigVersion.cmake"
refused "_GLIBCXX_USE_CXX11_ABI=0" abi "$work/moved;$work/torch-abi"

# An installation without it.
sed -i 's/^set(unisono_torch_built_for ".*")$/set(unisono_torch_built_for "")/' "$package/unisono-config.cmake"
refused "this installation of unisono has no component torch" none "$work/moved;$torch"
