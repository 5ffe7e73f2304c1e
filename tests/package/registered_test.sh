#!/usr/bin/env bash
# A test file that no target builds, or that never went through unisono_test, ends the configure step.
#   registered_test.sh REGISTERED_CMAKE GENERATOR
set -euo pipefail
script=$1 generator=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests"

cat >"$work/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.22)
project(tree LANGUAGES NONE)
add_subdirectory(tests)
include(${SCRIPT})
PROJECT
cat >"$work/tests/CMakeLists.txt" <<'PROJECT'
add_custom_target(known SOURCES known.cpp helper.cpp)
set_property(GLOBAL APPEND PROPERTY UNISONO_TEST_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/known.cpp)
PROJECT
echo 'TEST(Known, Runs) {}' >"$work/tests/known.cpp"
echo 'int helper;' >"$work/tests/helper.cpp"
configure() { rm -rf "$work/build" && cmake -S "$work" -B "$work/build" -G "$generator" -DSCRIPT="$script"; }

configure >"$work/log" 2>&1 || { cat "$work/log"; echo "refused a tree whose tests are all registered"; exit 1; }

echo 'TEST(Lost, NeverRuns) {}' >"$work/tests/lost.cpp"
if configure >"$work/log" 2>&1; then echo "accepted a test file without a target"; exit 1; fi
grep --quiet "lost.cpp belongs to no target" "$work/log"

rm "$work/tests/lost.cpp"
echo 'TEST(Helper, NeverRuns) {}' >"$work/tests/helper.cpp"
if configure >"$work/log" 2>&1; then echo "accepted a test that was not registered"; exit 1; fi
grep --quiet "helper.cpp has tests" "$work/log"
