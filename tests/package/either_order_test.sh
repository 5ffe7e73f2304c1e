#!/usr/bin/env bash
# A build folder that was configured before scripts/get/torch ran finds that PyTorch afterwards, also where a configuration was broken off in between.
# Nothing is built.
#   either_order_test.sh SOURCE_FOLDER CMAKE PYTHON
set -euo pipefail
source=$1 cmake=$2 python=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tree without its build folder, and with a python3 in PATH that has no PyTorch.
mkdir -p "$work/tree" "$work/bin"
(cd "$source" && tar --create --exclude=./build --exclude=./.git .) | tar --extract --directory "$work/tree"
printf '#!/bin/sh\nexec "%s" -E -s -S "$@"\n' "$python" >"$work/bin/python3"
chmod +x "$work/bin/python3"
export PATH=$work/bin:$PATH
cd "$work/tree"

configure() { "$cmake" --preset release "$@" >"$work/log" 2>&1; }
expect() {  # expect <pattern> <what it means>
  grep --quiet "$1" "$work/log" || { cat "$work/log"; echo "expected: $2"; exit 1; }
}

# As scripts/demo.sh does it, on a machine that has no PyTorch yet.
configure -DUNISONO_BUILD_TESTS=OFF -DUNISONO_BUILD_BENCH=OFF || { cat "$work/log"; exit 1; }
expect 'missing.*PyTorch' "no PyTorch before it is fetched"

# The folder that scripts/get/torch leaves behind.
mkdir -p build/python/bin
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >build/python/bin/python3
chmod +x build/python/bin/python3

# As scripts/test.sh does it; and again after a run that was ended while it configured.
configure -DUNISONO_TORCH=ON || { cat "$work/log"; exit 1; }
expect 'found .*PyTorch' "PyTorch, once it is fetched"
rm build/release/build.ninja
configure -DUNISONO_TORCH=ON || { cat "$work/log"; exit 1; }
expect 'found .*PyTorch' "PyTorch after a configuration that was broken off"
# The demo once more: the folder stays as it is.
"$cmake" build/release >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
expect 'found .*PyTorch' "PyTorch after the demo's second configuration"
