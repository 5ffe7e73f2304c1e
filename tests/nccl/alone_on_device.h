#pragma once

#include <memory>

#include "unisono/unisono.h"

namespace fake {

/// A world of one rank on backend nccl, which has the second device of the stand-in.
inline unisono::InitOptions alone_on_second_device() {
  unisono::InitOptions options;
  options.backend = "nccl";
  options.rank = 0;
  options.world_size = 1;
  options.local_rank = 1;
  options.store = std::make_shared<unisono::MemoryStore>();
  return options;
}

}  // namespace fake
