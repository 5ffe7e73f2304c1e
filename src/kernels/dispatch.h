#pragma once

// The choice among the instruction sets that Highway compiles a kernel for. Highway has a choice of its own in its library, which measures the
// processor's timer whenever a process loads it: 3 ms of each rank and of each command. So its headers alone are used.
#include "kernels/targets.h"

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

namespace unisono::kernels {

/// Returns the instruction sets that processor and system have, as Highway's bits, of which a lower one is better, less those that
/// UNISONO_INSTRUCTION_SET leaves out. There is always one.
std::int64_t usable_targets();

/// Makes the best of these the one that all kernels use; 0: the best that is usable. Tests call it, and the first kernel.
void use_targets(std::int64_t targets);

/// Where the chosen set stands in the tables of kernels; 0 until one has been chosen.
inline hwy::ChosenTarget chosen_target;

template <class Function, std::size_t Size>
Function on_chosen_target(Function const (&table)[Size]) {
  if (chosen_target.GetIndex() == 0) use_targets(0);
  return table[chosen_target.GetIndex()];
}

}  // namespace unisono::kernels

// UNISONO_FOR_TARGETS(f) makes a table of the functions f, one in the namespace of each target; UNISONO_ON_TARGET(f) is the one to call.
#if defined(HWY_COMPILE_ONLY_STATIC)
#define UNISONO_FOR_TARGETS(f) static_assert(true)
#define UNISONO_ON_TARGET(f) HWY_STATIC_DISPATCH(f)
#else
#define UNISONO_FOR_TARGETS(f) constexpr decltype(&HWY_STATIC_DISPATCH(f)) f##_table[] = {nullptr, HWY_CHOOSE_TARGET_LIST(f), HWY_CHOOSE_FALLBACK(f)}
#define UNISONO_ON_TARGET(f) ::unisono::kernels::on_chosen_target(f##_table)
#endif
