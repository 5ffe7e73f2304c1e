# What scripts/test.sh and scripts/test/sanitizers have in common; they source it in the root of the tree.
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

build() {  # build <build preset> <configure preset> <option of cmake>...
  local preset=$1 configured=$2
  shift 2
  cmake --preset "$configured" "$@" >"$results/configure" 2>&1 || { cat "$results/configure" >&2; return 1; }
  sed -n '/^-- unisono /,$p' "$results/configure" | sed -n 's/^--   /  /p'
  cmake --build --preset "$preset"
}

# Most tests wait for processes far more than they compute: ctest has three places for each processor, and a test that computes takes two of them
# (PROCESSORS; UNISONO_BUSY of tests/CMakeLists.txt).
parallel=$((3 * $(nproc)))
run_tests() {  # run_tests <preset> <command before ctest>...
  local preset=$1
  shift
  "$@" ctest --preset "$preset" --parallel "$parallel" | tee "$results/$preset"
}

say_passed() {  # say_passed <preset>...: the end of a script whose steps have all passed
  local preset
  printf '\n== all passed\n'
  printf '%s\n' "${report[@]}" "${without[@]}"
  for preset in "$@"; do
    printf '\n%s:\n' "$preset"
    sed -n '/tests passed/,$p' "$results/$preset" | grep -E 'tests passed|Total Test time'
  done
}
