#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "unisono/c.h"
#include "unisono/unisono.h"

// The program around the blocks of docs/coming-from/mpi.md. The first ones are whole programs, which join the job and leave it.
std::unique_ptr<unisono::Context> context_of_next_block();

#define MUST(call)                                           \
  do {                                                       \
    if ((call) != UNISONO_OK) {                              \
      std::fprintf(stderr, "%s\n", unisono_error_message()); \
      std::exit(1);                                          \
    }                                                        \
  } while (false)
#define FRAGMENTS_BEGIN(name) void name() {
#define FRAGMENT_BEGIN \
  {                    \
    const auto context_of_block = context_of_next_block();
#define FRAGMENT_END }
#define FRAGMENTS_END }

void run_fragments();
