#!/usr/bin/env bash
# Builds the fuzzers of tests/fuzz with Clang and lets each of them make up inputs, one after the other. Fails where one finds something, and leaves the
# input in build/fuzz/findings. What they learn stays in build/fuzz/learnt, where the next run begins.
#   --seconds N   so long each (60)
#   --keep        put what they have learnt into tests/fuzz/corpus: few inputs that reach most of it
#   --afl         let AFL++ make up the inputs instead of libFuzzer
#   TARGET...     only these, without "fuzz_"
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60
keep=no
afl=no
targets=()
while (($# > 0)); do
  case "$1" in
    --seconds) seconds=${2:?a number of seconds is missing}; shift ;;
    --keep) keep=yes ;;
    --afl) afl=yes ;;
    -h | --help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    -*) echo "usage: $0 [--seconds N] [--keep] [--afl] [TARGET...]   (unknown argument: $1)" >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
known() { sed -n 's/^ *unisono_fuzzer(\([a-z_]*\).*/\1/p' tests/fuzz/CMakeLists.txt; }
((${#targets[@]} > 0)) || mapfile -t targets < <(known)
for target in "${targets[@]}"; do
  known | grep -qx "$target" || { echo "test-fuzz: there is no target $target; there are: $(known | tr '\n' ' ')" >&2; exit 2; }
done

build=build/fuzz
options=()
if [[ $afl == yes ]]; then
  ./scripts/install-dependencies.sh --afl
  build=build/afl
  options=(-DCMAKE_C_COMPILER=afl-clang-fast -DCMAKE_CXX_COMPILER=afl-clang-fast++)
  export AFL_QUIET=1
else
  ./scripts/install-dependencies.sh --fuzz
fi
mkdir -p "$build"
cmake --preset fuzz -B "$build" "${options[@]}" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
cmake --build "$build" --target "${targets[@]/#/fuzz_}"

learnt=$PWD/$build/learnt
findings=$PWD/$build/findings
mkdir -p "$findings"
# Inputs that were found earlier count until they are removed. A limit on a single allocation is a part of what a target proves.
export ASAN_OPTIONS=detect_stack_use_after_return=1:symbolize=1 UBSAN_OPTIONS=print_stacktrace=1
ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer-16 llvm-symbolizer | head -1 || true)
export ASAN_SYMBOLIZER_PATH

by_libfuzzer() {  # by_libfuzzer <target>: prints how often it ran, and what it has reached
  local target=$1 program=$build/fuzz/fuzz_$1 log=$build/fuzz_$1.log limits
  read -r -a limits <"$program.options"
  local dictionary=tests/fuzz/$target.dict
  [[ ! -e $dictionary ]] || limits+=("-dict=$dictionary")
  if ! "$program" "${limits[@]}" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$findings/$target-" \
    "$learnt/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1; then
    grep -vE '^#[0-9]+[[:space:]]' "$log" | tail -60 >&2
    return 1
  fi
  printf '%-16s %12s executions %6s a second %7s branches %6s inputs\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")" "$(grep -oE 'cov: [0-9]+' "$log" | tail -1 | cut -d' ' -f2)" "$(find "$learnt/$target" -type f | wc -l)"
}

by_afl() {  # by_afl <target>: the same with AFL++
  local target=$1 program=$build/fuzz/fuzz_$1 log=$build/fuzz_$1.log out=$build/out/$1 begin=tests/fuzz/corpus/$1
  [[ ! -d $out ]] || begin=-
  if ! AFL_NO_UI=1 AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_AUTORESUME=1 \
    afl-fuzz -i "$begin" -o "$out" -V "$seconds" -t 10000 -m none -- "$program" >"$log" 2>&1; then
    tail -40 "$log" >&2
    return 1
  fi
  local input found=no
  for input in "$out"/default/crashes/id* "$out"/default/hangs/id*; do
    [[ -e $input ]] || continue
    cp "$input" "$findings/$target-$(sha1sum "$input" | cut -c1-16)"
    found=yes
  done
  cp "$out"/default/queue/id* "$learnt/$target/" 2>/dev/null || true
  printf '%-16s %12s executions %6s a second\n' "$target" "$(sed -n 's/^execs_done *: *//p' "$out/default/fuzzer_stats")" \
    "$(sed -n 's/^execs_per_sec *: *//p' "$out/default/fuzzer_stats")"
  [[ $found == no ]]
}

failed=()
for target in "${targets[@]}"; do
  mkdir -p "$learnt/$target"
  if [[ $afl == yes ]]; then by_afl "$target" || failed+=("$target"); else by_libfuzzer "$target" || failed+=("$target"); fi
done

if [[ $keep == yes ]]; then
  [[ $afl == no ]] || { echo "test-fuzz: --keep is libFuzzer's; copy $learnt to build/fuzz/learnt and run it without --afl" >&2; exit 2; }
  for target in "${targets[@]}"; do
    merged=$build/merged/$target
    rm -rf "$merged"
    mkdir -p "$merged"
    read -r -a limits <"$build/fuzz/fuzz_$target.options"
    "$build/fuzz/fuzz_$target" "${limits[@]}" -set_cover_merge=1 "$merged" "$learnt/$target" "tests/fuzz/corpus/$target" >"$build/merge_$target.log" 2>&1 ||
      { tail -20 "$build/merge_$target.log" >&2; exit 1; }
    # They come in the order of what each adds. The first of them have most of it, and the tree stays small.
    rm -rf "tests/fuzz/corpus/$target"
    mkdir "tests/fuzz/corpus/$target"
    room=14336
    files=0
    while read -r input && ((files < 80)); do
      size=$(stat -c %s "$merged/$input")
      ((size <= room)) || continue
      cp "$merged/$input" "tests/fuzz/corpus/$target/"
      room=$((room - size)) files=$((files + 1))
    done < <(ls -tr "$merged")
  done
  du -sh --apparent-size tests/fuzz/corpus
fi

if ((${#failed[@]} > 0)); then
  echo "test-fuzz: something was found by: ${failed[*]}" >&2
  find "$findings" -type f >&2
  echo "one of them again: $build/fuzz/fuzz_TARGET INPUT" >&2
  exit 1
fi
