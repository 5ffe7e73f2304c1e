#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

#include "unisono/unisono.h"

// The program around the blocks of docs/guide/elastic.md: it trains something.
#define FRAGMENTS_BEGIN(name) \
  void name(unisono::ElasticState& training, std::int64_t steps, const std::function<void(const unisono::ProcessGroup&)>& train) {
#define FRAGMENT_BEGIN {
#define FRAGMENT_END }
#define FRAGMENTS_END }

void run_fragments(unisono::ElasticState& training, std::int64_t steps, const std::function<void(const unisono::ProcessGroup&)>& train);
