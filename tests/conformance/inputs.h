#pragma once

#include <cstdint>
#include <cstring>

#include "../unit/kernels/oracle.h"
#include "world.h"

namespace conformance {

/// Whether this world combines the ranks' elements from left to right, so that every bit of a result is known. Engines of others have orders of their
/// own, and so have schedules; deterministic_test.cpp is about calls that ask for this order.
inline bool combines_in_order() {
  const std::string backend = unisono::world().backend();
  return backend == "native" || backend == "serial";
}

/// Inputs of a reduction: any bits at all where the order is known or makes no difference; else small numbers, of which every order gives the same.
inline unisono::oracle::Bytes inputs(unisono::DType dtype, unisono::ReduceOp op, std::size_t count, std::uint64_t seed) {
  using unisono::DType;
  using unisono::ReduceOp;
  const bool rounds = dtype >= DType::float32 && (op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::product);
  if (!rounds || combines_in_order()) return unisono::oracle::values(dtype, count, seed);
  unisono::oracle::Bytes x(count * size_of(dtype));
  unisono::oracle::with_type(dtype, [&]<class T>(T) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t any = (i * 7 + seed * 13) % 23;
      const T value(static_cast<float>(op == ReduceOp::product ? (any % 5 == 0 ? 2 : 1) : static_cast<int>(any) - 11));
      std::memcpy(x.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return x;
}

}  // namespace conformance
