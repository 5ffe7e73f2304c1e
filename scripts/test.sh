#!/usr/bin/env bash
# Builds everything and runs the checks: style, the tests (release), the thread-rank suites under AddressSanitizer and UndefinedBehaviorSanitizer, and
# the count of the rows of tests/features that the passed tests cover.
#   --without-torch   leave out the component torch, for which PyTorch is fetched otherwise, and the count of the rows
#   --long            also the tests that take minutes each (label "long"), and all thread-rank suites under these sanitizers and ThreadSanitizer
set -euo pipefail
cd "$(dirname "$0")/.."

with_torch=ON
long=no
for argument in "$@"; do
  case "$argument" in
    --without-torch) with_torch=OFF ;;
    --long) long=yes ;;
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    *) echo "usage: $0 [--without-torch] [--long]   (unknown argument: $argument)" >&2; exit 2 ;;
  esac
done

# The tests that compare with the real NCCL are skipped without it.
scripts/get-nccl || true

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
report=()

step() {  # step <name> <command>...: prints the name and records how long the command took; a failure ends the script
  local name=$1 started=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if ! "$@"; then
    printf '\n== FAILED: %s\n' "$name" >&2
    exit 1
  fi
  report+=("$(printf '%-28s %4d s' "$name" $((SECONDS - started)))")
}

build() {
  # The demo may have left tests and benchmarks out of build/release; the preset brings them back. The sanitizers check the core only, so LibTorch is
  # left out of their builds.
  local options=(-DUNISONO_TORCH=$with_torch)
  [[ $1 == release ]] || options=(-DUNISONO_LONG_TESTS=$([[ $long == yes ]] && echo ON || echo OFF))
  cmake --preset "$1" "${options[@]}" >"$results/configure" 2>&1 || { cat "$results/configure" >&2; return 1; }
  sed -n '/^-- unisono /,$p' "$results/configure" | sed -n 's/^--   /  /p'
  cmake --build --preset "$1"
}

# Many tests wait for processes more than they compute; those that need both processors declare it to ctest.
parallel=$((2 * $(nproc)))
run_tests() {  # run_tests <preset> <command before ctest>...
  local preset=$1
  shift
  "$@" ctest --preset "$preset" --parallel "$parallel" | tee "$results/$preset"
}

# This compiler's ThreadSanitizer cannot place its shadow memory where the kernel randomises addresses widely.
fixed_addresses=()
if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  fixed_addresses=(setarch "$(uname -m)" --addr-no-randomize)
fi

step "dependencies" ./scripts/install-dependencies.sh
without=()
if [[ $with_torch == ON ]] && ! ./scripts/get-torch; then
  with_torch=OFF
  without=("NOT TESTED: the component torch, since PyTorch could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if ! ./scripts/get-python; then
  without+=("NOT TESTED: the Python package, since nanobind could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if ! ./scripts/get-jax; then
  without+=("NOT TESTED: unisono.jax, since JAX could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if [[ $long == yes && $with_torch == ON ]] && ! ./scripts/get-torch --newest; then
  without+=("NOT TESTED: the newest PyTorch, since it could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if [[ $long == yes && $with_torch == ON ]] && ! ./scripts/get-frameworks; then
  without+=("NOT TESTED: programs of other frameworks, since those could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
step "layers" ./scripts/check-layers
step "words" ./scripts/check-words
step "format" ./scripts/check-format
step "lengths" ./scripts/check-lengths
step "tidy" ./scripts/check-tidy --within 60
step "build release" build release
step "layers by symbols" ./scripts/check-symbols
rm -rf build/release/coverage  # records of tests that no longer exist
step "test release" run_tests release
sanitized=(asan-ubsan)
if [[ $long == yes ]]; then
  sanitized+=(tsan)
  step "test long" run_tests long
fi
for preset in "${sanitized[@]}"; do
  step "build $preset" build "$preset"
  step "test $preset" run_tests "$preset" "${fixed_addresses[@]}"
done
if [[ $with_torch == ON ]]; then
  step "feature coverage" scripts/feature-coverage
else
  without+=("NOT COUNTED: the rows of tests/features, many of which the component torch covers")
fi

printf '\n== all passed\n'
printf '%s\n' "${report[@]}" "${without[@]}"
for preset in "${sanitized[@]}" release; do
  printf '\n%s:\n' "$preset"
  sed -n '/tests passed/,$p' "$results/$preset" | grep -E 'tests passed|Total Test time'
done
