#pragma once

#include <iostream>

#include "unisono/unisono.h"

// The program around the blocks of docs/troubleshooting/debugging.md.
#define FRAGMENTS_BEGIN(name) void name() {
#define FRAGMENT_BEGIN {
#define FRAGMENT_END }
#define FRAGMENTS_END }

void run_fragments();
