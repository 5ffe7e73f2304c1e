#!/usr/bin/env bash
# Builds the nccl plug-in and runs its tests on this machine's GPUs with 1, 2 and 4 ranks, which share a GPU where there are fewer GPUs than ranks.
#   test-gpu.sh [BUILD]   BUILD: the build folder, build/release by default
# Installs NCCL by pip where it is missing. The CUDA runtime (libcudart.so) is needed, nvcc is not.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}

scripts/get-nccl || echo "test-gpu: going on with the NCCL of this machine, if it has one" >&2
if ! ldconfig -p | grep 'libcudart\.so' >/dev/null && [[ -z ${UNISONO_CUDART_LIBRARY:-} ]]; then
  # The CUDA runtime is available as a Python package as well.
  runtime=build/cudart-package
  [[ -d $runtime ]] || python3 -m pip install --quiet --no-deps --root-user-action=ignore --target "$runtime" nvidia-cuda-runtime
  UNISONO_CUDART_LIBRARY=$(find "$PWD/$runtime" -name 'libcudart.so*' -print -quit)
  export UNISONO_CUDART_LIBRARY
fi
if [[ ! -e $build/build.ninja ]]; then
  cmake --preset release -B "$build" -DUNISONO_BUILD_BENCH=OFF -DUNISONO_BUILD_EXAMPLES=OFF
else
  cmake "$build" >/dev/null
fi
ninja -C "$build" unisono_nccl unisono-tool nccl_gpu_test nccl_loader_test nccl_collectives_test nccl_async_test nccl_errors_test
ctest --test-dir "$build" --output-on-failure --verbose -R '^nccl_'
