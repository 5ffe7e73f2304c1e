#!/usr/bin/env bash
# Every script says with --help what it is for, and does nothing else. A script that is given what it does not know says how it is used and ends with
# code 2, before it does anything.
#   scripts_test.sh SCRIPTS_FOLDER
set -euo pipefail
failures=0
while IFS= read -r script; do
  code=0
  output=$(timeout 30 "$script" --help 2>&1 </dev/null) || code=$?
  if ((code != 0)) || [[ -z "$output" ]]; then
    printf '%s --help ended with %d and said\n%s\n' "$script" "$code" "$output"
    failures=1
  fi
done < <(find "$1" -type f -executable | LC_ALL=C sort)
for script in docs get/arm64 get/dependencies get/docs get/frameworks get/torch package/torch-wheels test/torch-wheels test/without-compiler demo.sh test.sh test/sanitizers check/abi check/format check/language check/lengths check/recipes check/wheel package/old-glibc package/tag package/wheels test/arm64-wheel test/compiler test/old-system check/tidy get/clang check/feature-coverage test/instruction-sets test/mutants package/deb test/deb bench/between-hosts bench/startup bench/one-host bench/peers bench/controller bench/torch-operators; do
  code=0
  output=$("$1/$script" --nonsense 2>&1 </dev/null) || code=$?
  if ((code != 2)) || [[ "$output" != usage:* ]]; then
    printf '%s --nonsense ended with %d and said\n%s\n' "$script" "$code" "$output"
    failures=1
  fi
done
exit "$failures"
