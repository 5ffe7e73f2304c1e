#pragma once

#include <cstdint>

#include "ground/hash.h"
#include "unisono/backend.h"

namespace unisono::engine {

inline constexpr std::uint32_t labelled_kind = 0x80;

/// What two sides of a message agree on beside its length: the dtype in the lowest byte, with a mark where there is a label, and a hash of it above.
inline std::uint32_t kind_of(const MessageCall& call) {
  const auto dtype = static_cast<std::uint32_t>(call.data.dtype());
  return call.label.empty() ? dtype : dtype | (static_cast<std::uint32_t>(ground::stable_hash(call.label)) << 8) | labelled_kind;
}
inline DType dtype_of_kind(std::uint32_t kind) { return static_cast<DType>(kind & (labelled_kind - 1)); }

}  // namespace unisono::engine
