#!/usr/bin/env bash
# Builds everything and runs the checks: style, the tests (release), the count of the rows of tests/features that the passed tests cover,
# and that of the moments of the fault matrix.
#   --developer       with warnings as errors (preset developer), as the continuous integration does
#   --without-torch   leave out the component torch, for which PyTorch is fetched otherwise, and the count of the rows
#   --long            also the tests that take minutes each or run beside real software (label "long"), and scripts/test/sanitizers --long
set -euo pipefail
cd "$(dirname "$0")/.."

with_torch=ON
long=no
preset=release
for argument in "$@"; do
  case "$argument" in
    --developer) preset=developer ;;
    --without-torch) with_torch=OFF ;;
    --long) long=yes ;;
    -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
    *) echo "usage: $0 [--developer] [--without-torch] [--long]   (unknown argument: $argument)" >&2; exit 2 ;;
  esac
done
without=()
. scripts/test/steps.sh

language() {
  local code=0
  ./scripts/check/language || code=$?
  if ((code == 77)); then
    without+=("NOT CHECKED: the language of documents and messages, since the libraries for it could not be fetched")
    code=0
  fi
  return "$code"
}

# The tests that compare with the real NCCL are skipped without it.
scripts/get/nccl || true

step "dependencies" ./scripts/get/dependencies
if [[ $with_torch == ON ]] && ! ./scripts/get/torch; then
  with_torch=OFF
  without=("NOT TESTED: the component torch, since PyTorch could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if ! ./scripts/get/python; then
  without+=("NOT TESTED: the Python package, since nanobind could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if ! ./scripts/get/jax; then
  without+=("NOT TESTED: unisono.jax, since JAX could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if [[ $long == yes && $with_torch == ON ]] && ! ./scripts/get/torch --newest; then
  without+=("NOT TESTED: the newest PyTorch, since it could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if [[ $long == yes ]] && ! ./scripts/get/python-tools; then
  without+=("NOT TESTED: the notebook, and the types of the Python package, since nbclient and type checkers could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
with_originals=$with_torch
if [[ $with_torch == ON ]] && ! ./scripts/get/frameworks; then
  with_originals=OFF
  without+=("NOT TESTED: unisono.ignite and unisono.mmengine beside the originals, since those could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if [[ $long == yes && $with_torch == ON ]] && ! ./scripts/get/frameworks --all; then
  without+=("NOT TESTED: programs of other frameworks, since those could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if [[ $long == yes && $with_torch == ON ]] && ! ./scripts/get/xla; then
  without+=("NOT TESTED: ignite's backend xla-tpu, since torch_xla could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if [[ $long == yes ]] && ! ./scripts/get/dependencies --real; then
  without+=("NOT TESTED: unisono beside Slurm, Prometheus, py-spy, a browser and the like, as far as they could not be installed")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if [[ $long == yes ]] && ! ./scripts/get/docs; then
  without+=("NOT TESTED: the documentation site, since Sphinx and what goes with it could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
if [[ $long == yes ]] && ! ./scripts/get/mpi4py; then
  without+=("NOT TESTED: unisono beside mpi4py, since that could not be fetched")
  printf '\n== %s\n' "${without[@]}" >&2
fi
step "layers" ./scripts/check/layers
step "format" ./scripts/check/format
step "lengths" ./scripts/check/lengths
step "classes" ./scripts/check/classes
step "language" language
step "tidy" ./scripts/check/tidy --within 60
# The demo may have left tests and benchmarks out of build/release; the preset brings them back.
step "build release" build release "$preset" -DUNISONO_TORCH=$with_torch
step "layers by symbols" ./scripts/check/symbols
rm -rf build/release/coverage  # records of tests that no longer exist
step "test release" run_tests release
tested=(release)
if [[ $long == yes ]]; then
  step "build long" build long "$preset" -DUNISONO_TORCH=$with_torch
  step "test long" run_tests long
  tested+=(long)
  step "sanitizers" ./scripts/test/sanitizers --long
fi
if [[ $with_originals == ON ]]; then
  step "feature coverage" scripts/check/feature-coverage
else
  without+=("NOT COUNTED: the rows of tests/features, many of which tests with PyTorch, pytorch-ignite and mmengine cover")
fi
matrix=()
[[ $long == no ]] || matrix+=(--long)
((EUID == 0)) || matrix+=(--skipped-ok)
step "fault matrix" scripts/check/fault-matrix "${matrix[@]}"
say_passed "${tested[@]}"
