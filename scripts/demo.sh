#!/usr/bin/env bash
# Installs what is needed, builds, and trains a classifier of handwritten digits on four ranks, starting from a fresh clone.
#   --developer   with warnings as errors, as scripts/test.sh --developer
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
case "$*" in
  "") ;;
  --developer) preset=developer ;;
  -h | --help) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
  *) echo "usage: $0 [--developer]" >&2; exit 2 ;;
esac

./scripts/get/dependencies --core

# A build folder that was set up for more (scripts/test.sh) stays as it is; a new one leaves out parts that the demo does not need.
configure() {
  if [[ -f build/release/build.ninja ]]; then
    cmake build/release
  else
    cmake --preset "$preset" -DUNISONO_BUILD_TESTS=OFF -DUNISONO_BUILD_BENCH=OFF
  fi
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
configure >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build --preset release --target unisono-tool digits

echo
echo "+ build/release/bin/unisono run -n 4 -- build/release/bin/digits"
build/release/bin/unisono run -n 4 -- build/release/bin/digits
