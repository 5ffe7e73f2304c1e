#!/usr/bin/env bash
# Tests on this machine's GPUs with 1, 2 and 4 ranks, which share a GPU where there are fewer GPUs than ranks.
#   test-gpu.sh [BUILD]         builds the nccl plug-in and runs its tests. BUILD: the build folder, build/release by default
#   test-gpu.sh --pack [BUILD]  builds, and puts what a machine without this build's tools needs into build/gpu-kit, with NCCL cut down to Hopper's code
#   test-gpu.sh --kit           runs the tests of build/gpu-kit and of the Python package there, and prints the figures. It needs g++, a Python with
#                               PyTorch, and the CUDA runtime; build/gpu-kit is enough for the rest, as gpu-kit/tree/scripts/test-gpu.sh --kit. It
#                               takes some five minutes.
# Installs NCCL by pip where it is missing. The CUDA runtime (libcudart.so) is needed, nvcc is not.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=test
case "${1-}" in
  -h | --help) sed -n '2,9s/^# //p' "$0"; exit 0 ;;
  --pack | --kit) mode=${1#--}; shift ;;
esac
build=${1:-build/release}
kit=$PWD/build/gpu-kit
[[ ! -e ../libnccl.so.2.xz ]] || kit=$(dirname "$PWD")  # this is the tree in a kit
number() { sed -nE "s/.*UNISONO_VERSION_$1 +([0-9]+).*/\1/p" include/unisono/version.h; }
library=libunisono.so.$(number MAJOR).$(number MINOR)

build_tests() {
  scripts/get-nccl || echo "test-gpu: going on with the NCCL of this machine, if it has one" >&2
  if [[ ! -e $build/build.ninja ]]; then
    cmake --preset release -B "$build" -DUNISONO_BUILD_BENCH=OFF -DUNISONO_BUILD_EXAMPLES=OFF
  else
    cmake "$build" >/dev/null
  fi
  ninja -C "$build" unisono_nccl unisono-tool nccl_gpu_test "$@"
}

pack() {
  build_tests
  rm -rf "$kit"
  mkdir -p "$kit"/{lib,bin,tests,nanobind,tree/tests}
  cp -r include python scripts src "$kit/tree/"  # of which the Python package is made there
  cp -r tests/python "$kit/tree/tests/"
  cp -L "$build/lib/$library" "$build/lib/libunisono_nccl.so" "$kit/lib/"
  cp "$build/bin/unisono" "$kit/bin/"
  cp "$build/tests/nccl_gpu_test" "$kit/tests/"
  # What they need beside the compiler's and the system's own libraries.
  ldd "$kit"/lib/*.so* "$kit/bin/unisono" "$kit/tests/nccl_gpu_test" | awk '/=> \// {print $3}' | sort -u |
    { grep -vE '/(ld-linux|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libcrypto|libunisono)[-.]' || true; } | xargs -r cp -Lt "$kit/lib"
  strip --strip-debug "$kit"/lib/*.so* "$kit/bin/unisono" "$kit/tests/nccl_gpu_test"
  local nanobind
  nanobind=$(build/python/bin/python3 -c 'import nanobind; print(nanobind.__path__[0])')
  cp -r "$nanobind"/{include,src,ext} "$kit/nanobind/"
  # For a Python 3.12 there that has no headers.
  local headers
  headers=$(python3.12 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null) && cp -r "$headers" "$kit/"
  scripts/cut-nccl build/nccl-package/nvidia/nccl/lib/libnccl.so.2 "$kit/libnccl.so.2"
  strip --strip-debug "$kit/libnccl.so.2"
  xz "$kit/libnccl.so.2"
  du -sh "$kit"
}

failed=()
# run NAME COMMAND...: goes on after a failure, which the end of the script tells.
run() {
  local name=$1 started=$SECONDS
  shift
  echo "== $name"
  "$@" || failed+=("$name")
  echo "== $name: $((SECONDS - started)) s"
}

# The Python package for this machine's Python: its extension, and that of torch.distributed, by all processors.
build_package() {
  local objects=$work/objects nanobind=$kit/nanobind include suffix torch
  include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [[ -e $include/Python.h ]] || include=$kit/$(basename "$include")
  suffix=$(python3 -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  torch=$(python3 -c 'import torch; print(torch.__path__[0])')
  mkdir -p "$objects" "$package/torch/extensions"
  cp -r python/unisono/. "$package/"
  ln -sfn "$PWD/src" "$package/torch/sources"
  ln -sfn "$kit/lib" "$work/lib"
  printf 'VERSION = "%d.%d.%d"\n' "$(number MAJOR)" "$(number MINOR)" "$(number PATCH)" >"$package/torch/_version.py"
  local minor
  minor=$(python3 -c 'import torch; print(".".join(torch.__version__.split(".")[:2]))')
  python3 python/unisono/torch/_compile.py "$torch" "$package/torch/extensions/torch-$minor.so" --sources src --headers include --library "$kit/lib/$library" &
  local flags="-std=c++20 -O2 -DNDEBUG -fPIC -fvisibility=hidden -fno-strict-aliasing -w -Iinclude -I$nanobind/include -I$nanobind/ext/robin_map/include -I$include"
  printf '%s\n' "$nanobind/src/nb_combined.cpp" python/src/*.cpp |
    xargs -P "$(nproc)" -I{} sh -c "g++ $flags -c {} -o $objects/\$(basename {}).o" &&
    g++ -shared -o "$package/_core$suffix" "$objects"/*.o "$kit/lib/$library"
  wait
}

# time_of FILE BYTES: from the lines of tests/python/gpu_speed.py
time_of() { awk -v bytes="$2" '$1 == bytes {print $2}' "$work/$1"; }

speed() {  # speed NAME RANKS KIND BYTES...: the figures, kept under that name
  local name=$1 ranks=$2 kind=$3
  shift 3
  "$kit/bin/unisono" run -n "$ranks" -- python3 tests/python/gpu_speed.py "$kind" "$@" | sed -u 's/^\[[0-9]*\] //' | tee "$work/$name"
}

figures() {
  local mib=$((1 << 20)) bytes
  run "through the host, unisono, two ranks of one GPU" speed host-unisono 2 unisono
  run "through the host, its parts" speed parts 2 parts
  UNISONO_BACKEND=native run "through the host, unisono, one rank" speed host-alone 1 unisono
  run "through the host, gloo, two ranks of one GPU" speed host-gloo 2 gloo
  run "one rank, auto: on the device" speed alone 1 unisono
  run "torch.distributed, unisono, one rank" speed torch-unisono 1 torch-unisono 8
  run "torch.distributed, PyTorch's nccl, one rank" speed torch-nccl 1 torch-nccl 8
  for bytes in $mib $((16 * mib)) $((128 * mib)); do
    awk -v mib=$((bytes / mib)) -v ours="$(time_of host-unisono $bytes)" -v gloo="$(time_of host-gloo $bytes)" \
      'BEGIN {f = (ours + 0 > 0 && gloo + 0 > 0) ? gloo / ours : 0; printf("figure: through the host, %d MiB: gloo %.0f us, unisono %.0f us, %.1f times as fast (at least 3: %s)\n", mib, gloo, ours, f, (f < 3 ? "NO" : "yes")); exit (f < 3)}' ||
      failed+=("through the host, $((bytes / mib)) MiB")
  done
  awk -v ours="$(time_of torch-unisono 8)" -v theirs="$(time_of torch-nccl 8)" \
    'BEGIN {bad = (ours + 0 == 0 || ours > theirs); printf("figure: torch.distributed, 8 bytes: nccl %.1f us, unisono %.1f us (not behind: %s)\n", theirs, ours, (bad ? "NO" : "yes")); exit bad}' ||
    failed+=("torch.distributed beside PyTorch's nccl")
}

test_kit() {
  work=$(mktemp -d) package=$work/python/unisono
  trap 'rm -rf "$work"' EXIT
  xz -dkc "$kit/libnccl.so.2.xz" >"$work/libnccl.so.2"
  chmod 755 "$work" "$work/libnccl.so.2"
  UNISONO_CUDART_LIBRARY=${UNISONO_CUDART_LIBRARY:-$(python3 - <<'PYTHON'
import glob, os, sysconfig
folders = [*glob.glob("/usr/local/cuda*/lib64"), *glob.glob(os.path.join(sysconfig.get_path("purelib"), "nvidia", "*", "lib"))]
print(next(path for folder in folders for path in sorted(glob.glob(os.path.join(folder, "libcudart.so.1[0-9]"))) or [] if path))
PYTHON
)}
  export UNISONO_CUDART_LIBRARY UNISONO_NCCL_LIBRARY=$work/libnccl.so.2 UNISONO_TIMEOUT=120
  export LD_LIBRARY_PATH=$kit/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} UNISONO_PLUGIN_PATH=$kit/lib
  export PYTHONPATH=$work/python:$PWD/tests/python PYTHONDONTWRITEBYTECODE=1 COVERAGE_FOLDER=$work OMP_NUM_THREADS=2
  "$kit/bin/unisono" info || true
  run "the Python package is compiled" build_package
  run "nccl_gpu_test" env UNISONO_TOOL="$kit/bin/unisono" "$kit/tests/nccl_gpu_test"
  run "arrays, one rank, auto" "$kit/bin/unisono" run -n 1 -- python3 tests/python/gpu_test.py
  run "arrays, two ranks of one GPU, auto: through the host" "$kit/bin/unisono" run -n 2 -- python3 tests/python/gpu_test.py
  run "arrays, two ranks of one GPU, NCCL shares it" env NCCL_MULTI_RANK_GPU_ENABLE=1 "$kit/bin/unisono" run -n 2 -- python3 tests/python/gpu_test.py
  figures
  if ((${#failed[@]} > 0)); then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
  fi
  echo "test-gpu: all passed"
}

case "$mode" in
  pack) pack ;;
  kit) test_kit ;;
  test)
    if ! ldconfig -p | grep 'libcudart\.so' >/dev/null && [[ -z ${UNISONO_CUDART_LIBRARY:-} ]]; then
      # The CUDA runtime is available as a Python package as well.
      runtime=build/cudart-package
      [[ -d $runtime ]] || python3 -m pip install --quiet --no-deps --root-user-action=ignore --target "$runtime" nvidia-cuda-runtime
      UNISONO_CUDART_LIBRARY=$(find "$PWD/$runtime" -name 'libcudart.so*' -print -quit)
      export UNISONO_CUDART_LIBRARY
    fi
    build_tests nccl_loader_test nccl_collectives_test nccl_async_test nccl_errors_test nccl_through_host_test
    ctest --test-dir "$build" --output-on-failure --verbose -R '^nccl_'
    ;;
esac
