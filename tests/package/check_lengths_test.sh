#!/usr/bin/env bash
# check/lengths finds files of more than 350 lines and functions of more than 60, in each language, and counts neither braces in texts nor tables.
#   check_lengths_test.sh CHECK_LENGTHS
set -euo pipefail
check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src" "$work/scripts"

lines() {  # lines COUNT TEXT
  local i
  for ((i = 0; i < $1; ++i)); do printf '%s\n' "$2"; done
}
refuses() {  # refuses MESSAGE: the whole answer
  local output
  if output=$("$check" "$work" 2>&1); then
    echo "accepted a tree that should be refused with: $1"
    exit 1
  fi
  [[ "$output" == "$1" ]] || { printf 'expected: %s\ngot: %s\n' "$1" "$output"; exit 1; }
}
accepts() {
  "$check" "$work" || { echo "refused $1"; exit 1; }
}

# Everything at its limit, and braces that open no function.
cat >"$work/src/right.cpp" <<'END'
#define OPEN(name) void name() {
template <class T, class U = decltype(f())>
struct alignas(64) Wide final : Base<decltype(g())> {
  Wide(int a, Options options = {}) : a_{a}, b_(options) {}
  bool operator==(const Wide&) const = default;
  const char *brace = "{", *raw = R"x(}"{)x", open = '{';  // {
  int million = 1'000'000;
END
lines 61 '  int member = 0;' >>"$work/src/right.cpp"
printf '};\nconstexpr int table[] = {f(1),\n' >>"$work/src/right.cpp"
lines 70 '  1,' >>"$work/src/right.cpp"
printf '};\nint of_sixty() {\n' >>"$work/src/right.cpp"
lines 58 '  if (true) { call("}"); }' >>"$work/src/right.cpp"
printf '}\nnamespace inner {\n' >>"$work/src/right.cpp"
lines 70 'void declared(int a);' >>"$work/src/right.cpp"
lines $((350 - $(wc -l <"$work/src/right.cpp") - 1)) '// {' >>"$work/src/right.cpp"
printf '}\n' >>"$work/src/right.cpp"
lines 1000 'a line of data' >"$work/src/data.csv"
accepts "what is right"

cp "$work/src/right.cpp" "$work/src/longer.cpp"
echo >>"$work/src/longer.cpp"
refuses "src/longer.cpp: 351 lines, and a file has at most 350"
rm "$work/src/longer.cpp"

# Each head, with a body that makes 61 lines of it.
while IFS= read -r head; do
  { printf '\n%s {\n' "$head"; lines 59 '  step();'; printf '}\n'; } >"$work/src/long.h"
  refuses "src/long.h:2: 61 lines, and a function has at most 60"
done <<'END'
void plain()
static auto trailing(int a) -> std::vector<int>
template <class T, int N = 3> requires(N >= 2) T constrained(T a)
Type::Type(int a, Options options = {.b = 1}) : Base(a), member_{a}, other_(options)
bool operator<=(const Type& a, const Type& b) noexcept
TEST_IN((Worlds{.at_least = 2}), Suite, Name)
const auto lambda = [](int a)
static const bool registered = add("name", [&] 
struct sockaddr* address_of(int socket)
END
rm "$work/src/long.h"

{ printf 'class A:\n    @decorated\n    def long(self):\n'; lines 59 '        pass'; } >"$work/scripts/long.py"
refuses "scripts/long.py:2: 61 lines, and a function has at most 60"
{ printf '"""It says what it does.\n'; lines 300 'more'; printf '"""\ndef of_sixty():\n    """It does\n'; lines 70 '    more.'; printf '    """\n'; lines 58 '    pass'; } >"$work/scripts/long.py"
accepts "docstrings"
echo '    pass' >>"$work/scripts/long.py"
refuses "scripts/long.py:303: 61 lines, and a function has at most 60"
rm "$work/scripts/long.py"
{ printf '#!/bin/bash\nshort() { true; }\nlong() {\n'; lines 59 '  true'; printf '}\n'; } >"$work/scripts/long"
refuses "scripts/long:3: 61 lines, and a function has at most 60"
rm "$work/scripts/long"
{ printf 'function(long name)\n'; lines 59 '  set(a b)'; printf 'endfunction()\n'; } >"$work/src/CMakeLists.txt"
refuses "src/CMakeLists.txt:1: 61 lines, and a function has at most 60"
