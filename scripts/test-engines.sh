#!/usr/bin/env bash
# Runs the whole conformance suite on every engine that is built, with 1 to 4 ranks and with hosts as which the ranks present themselves. It runs
# longer than the part in scripts/test.sh. Arguments go to ctest, for instance: -R gloo
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/install-dependencies.sh
cmake --preset release
cmake --build --preset release
ctest --test-dir build/release -C engines -L engines --parallel "$(nproc)" --output-on-failure "$@"
