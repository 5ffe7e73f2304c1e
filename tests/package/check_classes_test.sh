#!/usr/bin/env bash
# check/classes finds classes of more than 40 functions or 20 data members, with what belongs to them alone, and circles of includes within a folder.
#   check_classes_test.sh CHECK_CLASSES
set -euo pipefail
check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{src/one,src/two,include,tools,bench,python/src}

repeated() {  # repeated COUNT TEXT: the number takes the place of N
  local i
  for ((i = 0; i < $1; ++i)); do printf '%s\n' "${2//N/$i}"; done
}
refuses() {  # refuses LINE: the only one beside the rule
  local output
  if output=$("$check" "$work" 2>/dev/null); then
    echo "accepted a tree that should be refused with: $1"
    exit 1
  fi
  [[ "$output" == "$1" ]] || { printf 'expected: %s\ngot: %s\n' "$1" "$output"; exit 1; }
}
accepts() { "$check" "$work" || { echo "refused $1"; exit 1; }; }

# A class at both limits. Static members, types, friends, deleted and defaulted functions do not count.
{
  printf '#pragma once\nclass Right {\n public:\n  Right() = default;\n  Right(const Right&) = delete;\n  friend class Wide;\n  using Type = int;\n  static int count;\n'
  repeated 40 '  std::map<int, int> fN(std::function<void(int)> g = {}) const;'
  repeated 20 '  std::map<int, std::function<void(int)>> memberN_{};'
  printf '};\n'
} >"$work/src/one/right.h"
accepts "a class at its limits"

sed 's/^};/  int one_more_ = 0;\n};/' "$work/src/one/right.h" >"$work/src/one/wide.h"
refuses "src/one/wide.h: Right has 40 functions and 21 data members"
sed 's/^};/  void one_more();\n};/' "$work/src/one/right.h" >"$work/src/one/wide.h"
refuses "src/one/wide.h: Right has 41 functions and 20 data members"

# The members of a struct without functions count where one class alone has it, and those of a base without other classes.
{
  printf '#pragma once\nstruct Rest {\n'
  repeated 15 '  int rN = 0;'
  printf '};\nclass Owner {\n'
  repeated 6 '  int oN_ = 0;'
  printf '  Rest rest_;\n};\n'
} >"$work/src/one/wide.h"
refuses "src/one/wide.h: Owner has 0 functions and 21 data members"
printf 'class Other { Rest rest_; };\n' >>"$work/src/one/wide.h"
accepts "a struct that two classes have"
rm "$work/src/one/wide.h"

# A header and its source are one; a circle over folders is none of a folder.
printf '#pragma once\n#include "one/b.h"\n' >"$work/src/one/a.h"
printf '#pragma once\n' >"$work/src/one/b.h"
printf '#pragma once\n#include "one/a.h"\n' >"$work/src/two/c.h"
printf '#include "two/c.h"\n' >"$work/src/one/b.cpp"
accepts "includes without a circle within a folder"
printf '#include "one/a.h"\n' >"$work/src/one/b.cpp"
refuses "src/one: these 2 include each other in a circle: a, b"
