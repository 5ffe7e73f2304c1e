#pragma once

#include <vector>

#include "unisono/unisono.h"

// The program around the blocks of docs/troubleshooting/errors.md: it has gradients.
#define FRAGMENTS_BEGIN(name) void name(std::vector<float>& gradients) {
#define FRAGMENT_BEGIN {
#define FRAGMENT_END }
#define FRAGMENTS_END }

void run_fragments(std::vector<float>& gradients);
