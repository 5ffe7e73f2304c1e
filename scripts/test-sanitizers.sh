#!/usr/bin/env bash
# Builds the suites whose ranks are threads with AddressSanitizer and UndefinedBehaviorSanitizer and runs them. The component torch is left out.
#   --long        all of these suites, and under ThreadSanitizer as well
#   --processes   the tests of faults and of the launcher instead: command, ranks and tests under AddressSanitizer and UndefinedBehaviorSanitizer
set -euo pipefail
cd "$(dirname "$0")/.."

long=OFF
presets=(asan-ubsan)
for argument in "$@"; do
  case "$argument" in
    --long) long=ON presets+=(tsan) ;;
    --processes) presets=(asan-ubsan-processes) ;;
    -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
    *) echo "usage: $0 [--long | --processes]   (unknown argument: $argument)" >&2; exit 2 ;;
  esac
done
without=()
. scripts/steps.sh
parallel=$((2 * $(nproc)))  # with a sanitizer the tests compute for longer than they wait

# This compiler's ThreadSanitizer cannot place its shadow memory where the kernel randomises addresses widely.
fixed_addresses=()
if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  fixed_addresses=(setarch "$(uname -m)" --addr-no-randomize)
fi

# A finding is mended, not hidden.
no_suppressions() { ! grep -rnE '\bno_sanitize|suppressions=|__(tsan|lsan|asan)_' src include tools bench tests cmake CMakePresets.json; }
step "no suppressions" no_suppressions

# The tests that compare with the real NCCL are skipped without it.
scripts/get-nccl || true
step "dependencies" ./scripts/install-dependencies.sh
for preset in "${presets[@]}"; do
  step "build $preset" build "$preset" "${preset%-processes}" -DUNISONO_LONG_TESTS=$long
  step "test $preset" run_tests "$preset" "${fixed_addresses[@]}"
done
say_passed "${presets[@]}"
