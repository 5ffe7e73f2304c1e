#!/usr/bin/env bash
# A recipe that names another version, another address or an option that the build does not have is refused with the reason.
#   recipes_test.sh SOURCE_FOLDER
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

change() {  # change <file> <from> <to> <check> <what it says>
  rm -rf "$work/tree"
  mkdir "$work/tree"
  (cd "$source" && cp -r --parents CMakeLists.txt CITATION.cff pyproject.toml cmake include/unisono/version.h packaging python/torch/pyproject.toml scripts/check/recipes.py src/CMakeLists.txt "$work/tree")
  python3 -B "$work/tree/scripts/check/recipes.py" --versions --addresses --options --spack --vcpkg || { echo "refused recipes that are right"; exit 1; }
  grep --quiet -e "$2" "$work/tree/$1" || { echo "$1 has no $2"; exit 1; }
  sed -i "s|$2|$3|" "$work/tree/$1"
  if python3 -B "$work/tree/scripts/check/recipes.py" "$4" >"$work/said"; then echo "accepted $3 in $1"; exit 1; fi
  grep --quiet --fixed-strings -e "$5" "$work/said" || { cat "$work/said"; echo "did not say: $5"; exit 1; }
}

change packaging/conda/recipe.yaml '^  version: .*' '  version: "7.0.0"' --versions 'packaging/conda/recipe.yaml names version 7.0.0'
change packaging/vcpkg/unisono/vcpkg.json '"version": .*' '"version": "7.0.0",' --versions 'packaging/vcpkg/unisono/vcpkg.json names version 7.0.0'
change packaging/spack/packages/unisono/package.py 'version("[0-9][^"]*"' 'version("7.0.0"' --versions 'packaging/spack/packages/unisono/package.py names version 7.0.0'
change CITATION.cff 'repository-code: .*' 'repository-code: https://elsewhere.example/unisono' --addresses 'CITATION.cff names https://elsewhere.example/unisono'
change packaging/conda/recipe.yaml UNISONO_BUILD_TESTS UNISONO_MAKE_TESTS --options 'packaging/conda/recipe.yaml sets UNISONO_MAKE_TESTS, which the build does not have'
change packaging/spack/packages/unisono/package.py CMakePackage MesonPackage --spack 'Unisono is no CMakePackage'
change packaging/vcpkg/unisono/portfile.cmake 'etcd UNISONO_ETCD' '' --vcpkg "the port hands on ['command']"
