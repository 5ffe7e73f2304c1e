#pragma once

#include <cstddef>
#include <span>

#include "kernels/copy.h"
#include "kernels/pack.h"
#include "unisono/tensor.h"

// Copies between buffers that may be strided and memory where their elements lie one behind the other.

namespace unisono::group {

inline void put(const TensorView& to, const std::byte* from) {
  if (to.is_contiguous()) kernels::copy(to.data(), from, to.bytes());
  else kernels::unpack(to, from);
}
inline void take(std::byte* to, const TensorView& from) {
  if (from.is_contiguous()) kernels::copy(to, from.data(), from.bytes());
  else kernels::pack(to, from);
}
inline void put_list(std::span<const TensorView> to, const std::byte* from) {
  for (const TensorView& tensor : to) {
    put(tensor, from);
    from += tensor.bytes();
  }
}
inline void take_list(std::byte* to, std::span<const TensorView> from) {
  for (const TensorView& tensor : from) {
    take(to, tensor);
    to += tensor.bytes();
  }
}

}  // namespace unisono::group
