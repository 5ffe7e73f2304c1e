#pragma once

#include "unisono/unisono.h"

namespace unisono::testing {

inline SpawnOptions ranks(int n) {
  SpawnOptions options;
  options.nproc_per_node = n;
  return options;
}

}  // namespace unisono::testing
