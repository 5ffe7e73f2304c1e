#!/usr/bin/env bash
# Runs the whole conformance suite on every engine that is built, with 1 to 4 ranks and on hosts that the ranks present themselves as being on.
# Longer than what scripts/test.sh runs of it. Arguments go to ctest, for instance: -R gloo
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/install-dependencies.sh
cmake --preset release
cmake --build --preset release
ctest --preset release -C engines -L engines --parallel "$(nproc)" --output-on-failure "$@"
