#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

#include "unisono/reduce_op.h"

namespace unisono::kernels {

/// A reduce operation of the library, as everything but its arithmetic sees it.
struct ReduceOpInfo {
  ReduceOp op;
  std::string_view name;   // of the enumerator
  std::string_view alias;  // in lower case; empty: none
  std::string_view other;  // a second one
  // The dtypes on which it is defined; floats are the real ones.
  bool on_boolean, on_integers, on_floats, on_complex;
  bool keeps_one;  // a single element, not of boolean, is its own result, bit for bit
};

/// Every operation, in the order of the enumerators. Names, checks and messages read it; the arithmetic stands in vector.cpp.
inline constexpr ReduceOpInfo reduce_ops[] = {
    // op, names, boolean, integers, floats, complex, keeps_one
    {ReduceOp::sum, "sum", "", "", true, true, true, true, true},
    {ReduceOp::product, "product", "prod", "", true, true, true, true, true},
    {ReduceOp::min, "min", "", "", true, true, true, false, true},
    {ReduceOp::max, "max", "", "", true, true, true, false, true},
    {ReduceOp::avg, "avg", "mean", "average", false, true, true, true, false},
    {ReduceOp::band, "band", "and", "", true, true, false, false, true},
    {ReduceOp::bor, "bor", "or", "", true, true, false, false, true},
    {ReduceOp::bxor, "bxor", "xor", "", true, true, false, false, true},
    {ReduceOp::land, "land", "", "", true, true, true, false, false},
    {ReduceOp::lor, "lor", "", "", true, true, true, false, false},
};

consteval bool is_in_order() {
  std::size_t index = 0;
  for (const ReduceOpInfo& info : reduce_ops) {
    if (static_cast<std::size_t>(info.op) != index++) return false;
  }
  return true;
}
static_assert(is_in_order(), "the table has the operations in the order of their enumerators");

/// Returns the row of an operation; null for a value that is no enumerator.
constexpr const ReduceOpInfo* info_of(ReduceOp op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < std::size(reduce_ops) ? &reduce_ops[index] : nullptr;
}

}  // namespace unisono::kernels
