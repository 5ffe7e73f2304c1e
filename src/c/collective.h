#pragma once

#include <cstddef>
#include <cstdint>

#include "unisono/c/types.h"
#include "unisono/operation.h"

namespace unisono::c {

/// A collective as a function of C is given it. In place, `in` and `out` are one buffer.
struct Collective {
  Operation operation;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  ///< of a block, or of the whole buffer where there are none
  unisono_dtype dtype = UNISONO_UINT8;
  unisono_reduce_op op = UNISONO_SUM;
  std::int32_t root = 0;
  const std::size_t* counts = nullptr;       ///< of the blocks, where they differ
  const std::size_t* recv_counts = nullptr;  ///< of all_to_all_v
  const unisono_group* group;
  const unisono_call_options* options;
};

unisono_status run(const Collective& call) noexcept;
unisono_status start(const Collective& call, unisono_work** work) noexcept;

}  // namespace unisono::c
