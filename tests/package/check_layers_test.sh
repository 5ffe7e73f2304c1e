#!/usr/bin/env bash
# check/layers finds each kind of wrong include, and nothing in a tree that is right.
#   check_layers_test.sh CHECK_LAYERS
set -euo pipefail
check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

tree() {  # tree <file> <line>: a right tree with one more line in one file
  rm -rf "$work/tree"
  mkdir -p "$work/tree"/{include/unisono,src/{base,kernels,engines,launch},tools,examples}
  printf '#pragma once\n#include <vector>\n#include "unisono/error.h"\n' >"$work/tree/include/unisono/tensor.h"
  printf '#include "base/log.h"\n#include <fmt/format.h>\n' >"$work/tree/src/base/log.cpp"
  printf '#include "base/log.h"\n#include <hwy/highway.h>\n' >"$work/tree/src/kernels/reduce.cpp"
  printf '#include "kernels/reduce.h"\n#include "engines/slots.h"\n' >"$work/tree/src/engines/slots.cpp"
  printf '#include "engines/slots.h"\n#include "unisono/launch.h"\n' >"$work/tree/src/launch/run.cpp"
  printf '#include "launch/run.h"\n#include <CLI/CLI.hpp>\n' >"$work/tree/tools/run.cpp"
  printf '#include <unisono/unisono.h>\n' >"$work/tree/examples/hello.cpp"
  if (($# > 0)); then
    mkdir -p "$work/tree/$(dirname "$1")"
    printf '%s\n' "$2" >>"$work/tree/$1"
  fi
}

refused() {  # refused <file> <line> <what the message names>
  tree "$1" "$2"
  if output=$("$check" "$work/tree" 2>&1); then
    echo "accepted, but wrong: $2 in $1"
    failures=1
  elif [[ "$output" != *"$1"*"$3"* ]]; then
    echo "message without '$1' and '$3': $output"
    failures=1
  fi
}

accepted() {  # accepted <file> <line>
  tree "$1" "$2"
  "$check" "$work/tree" || { echo "refused, but right: $2 in $1"; failures=1; }
}

tree
"$check" "$work/tree" || { echo "refused a tree that is right"; failures=1; }

refused src/base/log.cpp '#include "engines/slots.h"' 'engines/slots.h'
refused src/kernels/reduce.cpp '#  include "launch/run.h"' 'launch/run.h'
refused src/engines/slots.cpp '#include "unisono/collectives.h"' 'unisono/collectives.h'
refused src/engines/slots.cpp '#include <hwy/highway.h>' 'src/kernels/'
refused src/launch/run.cpp '#include <mpi.h>' 'src/engines/mpi/'
refused src/launch/run.cpp '#include "launch/mpi/pmi_server.h"' 'src/launch/mpi/'
refused src/launch/run.cpp '#include <torch/torch.h>' 'src/torch/'
refused src/launch/run.cpp '#include <CLI/CLI.hpp>' 'tools/'
refused include/unisono/tensor.h '#include <fmt/format.h>' 'fmt/format.h'
refused include/unisono/tensor.h '#include "base/log.h"' 'base/log.h'
refused include/unisono/tensor.h '#include "unisono/unisono.h"' 'unisono/unisono.h'
refused include/unisono/tensor.h '#include <stdint.h>' 'stdint.h'
refused include/unisono/tensor.h '#include "unisono/c/types.h"' 'src/c'
refused src/launch/run.cpp '#include "unisono/c.h"' 'src/c'
refused include/unisono/c/types.h '#include <stdio.h>' 'stdio.h'
accepted include/unisono/c/types.h '#include <stdint.h>'
refused examples/hello.cpp '#include "base/log.h"' 'public headers'
refused src/attic/old.cpp '#include <vector>' 'attic'

exit "$failures"
