#pragma once

#include <cstddef>
#include <string>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

namespace unisono::kernels {

/// The parameters of reduce() without the elements.
struct Fold {
  DType dtype;
  ReduceOp op;
  std::size_t divisor;
};

/// Reduces on the widest vectors of the machine; returns false, with nothing done, for a pair that has no vector kernel.
bool reduce_vector(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, const Fold& fold);

/// Returns the instruction set that reduce() uses: "AVX2".
std::string target_name();

}  // namespace unisono::kernels
